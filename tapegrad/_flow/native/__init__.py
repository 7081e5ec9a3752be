"""Native code of graphs: values, the tape, adjoints, as text for LLVM."""
