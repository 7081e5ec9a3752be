"""Families of functions that are imported when one of them is first used, in fresh processes."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import tapegrad as tg


def fresh(text: str, *arguments) -> list[str]:
    """The lines that a text prints in a process of its own."""
    head = "import sys\nimport numpy as np\nimport tapegrad as tg\n"
    command = [sys.executable, "-W", "error", "-c", head + textwrap.dedent(text), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_late_modules_are_what_they_say():
    """Their names, and nothing that must be known before: ufuncs, methods, element-wise rows."""
    printed = fresh("""
        from tapegrad._core.operations.numpy_protocols import _PLAIN
        from tapegrad._core.ops.table import STEERING, TABLE, Pointwise
        from tapegrad._core.tensor import runtime as rt
        from tapegrad._core.tensor.registry import LATE, OF_NUMPY, PUBLIC, load_families

        def rows():
            return [op.name for op in (*TABLE.values(), *STEERING.values())
                    if isinstance(op, Pointwise) and not op.name.startswith("complex_")]

        late, early, of_numpy = dict(LATE), PUBLIC.early(), set(OF_NUMPY)
        methods, pointwise = set(vars(rt.Tensor)), rows()
        load_families()
        assert not LATE and set(vars(rt.Tensor)) == methods and rows() == pointwise
        names = [name for module in late.values() for name in module]
        assert len({*names}) == len(names) and not {*names} & {*early}
        assert {*PUBLIC.early()} == {*early, *names}, {*PUBLIC.early()} ^ {*early, *names}
        for theirs in set(OF_NUMPY) - of_numpy:
            assert not isinstance(theirs, (np.ufunc, str)), theirs
            assert theirs.__name__ in names and theirs not in _PLAIN, theirs
        for module, own in late.items():
            found = {n for n in own if PUBLIC[n].__module__.startswith("tapegrad")}
            assert found == {*own}, module
        print(len(names))
    """)
    assert int(printed[0]) > 50


@pytest.mark.parametrize(
    "expression",
    [
        "np.linalg.solve(a, np.ones(2))",
        "np.polyval([2.0, a[0, 0], 1.0], a)",
        "np.quantile(a, 0.3)",
        "np.pad(a, 1)",
        "np.cov(a)",
        "np.unique(a)",
        "np.linalg.norm(a)",
        "np.interp(a, [0.0, 4.0], [1.0, 2.0])",
        "np.abs(np.fft.rfft(a))",
        "tg.softmax(a)",
        "tg.scipy.linalg.expm(a)",
    ],
)
def test_a_function_brings_its_family(expression):
    text = f"""
        before = sum(name.startswith("tapegrad._core.operations") for name in sys.modules)
        a = np.array([[2.0, 1.0], [0.5, 3.0]])
        f = lambda a: np.sum({expression})
        print(*tg.grad(f)(a).ravel().tolist())
        c = tg.compile(f)
        c.grad(a), c.grad(a)
        print(*c.grad(a).ravel().tolist())
        assert before < sum(name.startswith("tapegrad._core.operations") for name in sys.modules)
    """
    found = np.array([line.split() for line in fresh(text)], float)
    a, step = np.array([[2.0, 1.0], [0.5, 3.0]]), 1e-6
    f = eval(f"lambda a: np.sum({expression})", {"np": np, "tg": tg})
    wanted = []
    for k in range(4):
        h = step * (np.arange(4) == k).reshape(2, 2)
        wanted.append(float(f(a + h) - f(a - h)) / (2.0 * step))
    np.testing.assert_allclose(found, [wanted, wanted], rtol=1e-7, atol=1e-8)


def test_the_names_at_top_level_are_complete():
    printed = fresh("""
        import pickle
        from tapegrad._core.tensor.registry import LATE, PUBLIC
        assert LATE and {"polyval", "solve", "sin"} <= {*dir(tg)} and hasattr(tg, "svd")
        assert "quantile" in PUBLIC and PUBLIC.get("nothing") is None and PUBLIC.get("pad")
        assert pickle.loads(pickle.dumps(tg.insert)) is tg.insert
        assert tg.insert.__module__ == "tapegrad" and LATE
        try:
            tg.no_such_function
        except AttributeError as error:
            print(error)
        assert {*dir(tg)} >= {*tg.__all__}
        from tapegrad import *
        print(polyfit is tg.polyfit, len(PUBLIC) == len([*PUBLIC]) == len(PUBLIC.items()))
    """)
    assert printed == ["module 'tapegrad' has no attribute 'no_such_function'", "True True"]


def test_threads_may_be_the_first_together():
    printed = fresh("""
        import threading
        a, found = np.array([[2.0, 1.0], [0.5, 3.0]]), []
        functions = [np.linalg.solve, np.linalg.inv, np.linalg.norm, np.linalg.det, np.quantile]
        start = threading.Barrier(20)
        def run(k):
            start.wait()
            f = functions[k % 5]
            rest = {0: (np.ones(2),), 4: (0.5,)}.get(k % 5, ())
            found.append(np.isfinite(tg.grad(lambda a: np.sum(f(a, *rest)))(a)).all())
        threads = [threading.Thread(target=run, args=(k,)) for k in range(20)]
        [t.start() for t in threads], [t.join() for t in threads]
        print(len(found), all(found))
    """)
    assert printed == ["20 True"]


def test_files_name_operations_of_all_families(tmp_path):
    path, a = str(tmp_path / "program"), np.array([[2.0, 1.0], [0.5, 3.0]])
    c = tg.compile(lambda a: np.sum(np.linalg.solve(a, np.ones(2))) + np.linalg.norm(a))
    wanted = [c.grad(a), c.grad(a)][1]
    c.save(path)
    printed = fresh(
        """
        c = tg.load(sys.argv[1])
        print(*c.grad(np.array([[2.0, 1.0], [0.5, 3.0]])).ravel().tolist())
        """,
        path,
    )
    assert np.array_equal(np.array(printed[0].split(), float), wanted.ravel())


def test_families_that_two_threads_import_at_once():
    """Each operation has a code of its own; the planted thread is held up while it declares one."""
    printed = fresh("""
        import importlib, threading
        from tapegrad._core.ops import table

        def family(name):
            importlib.import_module(f"tapegrad._core.operations.{name}")

        inside, go, usual = threading.Event(), threading.Event(), table.Structural.__init__

        def slow(self, *given, **named):
            if threading.current_thread().name == "slow" and not inside.is_set():
                inside.set()
                go.wait(0.5)
            usual(self, *given, **named)

        table.Structural.__init__ = slow
        other = threading.Thread(target=family, args=("convolving",), name="slow")
        other.start()
        inside.wait()
        family("softmax")
        go.set()
        other.join()
        tables = (table.TABLE, table.STEERING, table.COMPLEX, table.PASSED, table.USERS)
        for op in [op for one in tables for op in one.values()]:
            assert table.BY_CODE[op.code] is op, op.name
        assert all(op.code == code for code, op in table.BY_CODE.items())
    """)
    assert printed == []


def test_a_family_that_is_imported_while_operations_are_gone_through():
    printed = fresh("""
        from tapegrad._core.ops import table
        from tapegrad._core.tape import store
        from tapegrad._core.tensor.registry import load_families

        def importing(op, usual=store._used_word):
            load_families()
            return usual(op)

        before, store._used_word = len(table.BY_CODE), importing
        x = np.array([0.5, 2.0])
        print(*tg.grad(lambda x: np.sum(x * x))(x), len(table.BY_CODE) > before)
    """)
    assert printed == ["1.0 4.0 True"]


def test_counterparts_of_names_are_made_when_they_are_used():
    """What entered code does not name is not imported."""
    printed = fresh("""
        import scipy.special
        tg.config.enter = True

        def f(x):
            a = np.zeros(2)
            a[0] = np.abs(x[0])
            return scipy.special.expit(a[0]) + np.max(x)

        print(*tg.grad(f)(np.array([0.0, 2.0])))
        assert "concatenate" not in vars(tg.numpy) and tg.numpy.zeros is vars(tg.numpy)["zeros"]
        assert tg.numpy.concat is tg.numpy.concatenate and tg.numpy.abs is tg.numpy.absolute
        assert tg.numpy.newaxis is None and tg.numpy.pi == np.pi
        for name in ("numpy.random", "numpy.linalg", "scipy._fourier", "_core.operations.solving"):
            assert f"tapegrad.{name}" not in sys.modules, name
    """)
    assert printed == ["0.0 1.0"]


def test_counterparts_are_those_of_numpys_functions_and_not_of_others_in_their_place(monkeypatch):
    own, stand_in = np.vander, tg.numpy
    monkeypatch.setattr(np, "vander", lambda *_: 0.0)
    vars(stand_in).pop("vander", None)
    assert stand_in.vander.__wrapped__ is own
