/* Checks of addresses for compiled code, answered by AddressSanitizer: see checked_build.py. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__asan_region_is_poisoned(void *begin, size_t size);
void __asan_get_shadow_mapping(size_t *scale, size_t *offset);
void __asan_report_load_n_noabort(void *address, size_t size);
void __asan_report_store_n_noabort(void *address, size_t size);
void __asan_set_error_report_callback(void (*callback)(const char *));

/* A place in compiled code that reads or writes: one that is found wrong is told of once. */
struct site {
    char seen;
    char is_store;
    char text[];
};

/* Where user memory begins, above the shadow. */
#define LOWEST 0x10007fff8000ull
#define HIGHEST 0x7fffffffffffull
/* Reports wait here for Python; what finds no room is in the log alone. */
#define ROOM (1 << 20)

static char reports[ROOM];
static size_t filled;
static size_t shadow;
/* What this thread is about to use: all that can be said where an address is nowhere at all. */
static __thread struct {
    void *address;
    size_t size;
    struct site *site;
} latest;

static void keep(const char *text)
{
    size_t length = strlen(text);
    if (filled + length + 1 < ROOM) {
        memcpy(reports + filled, text, length + 1);
        filled += length;
    }
}

static int describe(char *line, size_t room, void *address, size_t size, struct site *site)
{
    return snprintf(line, room, "%s of %zu bytes at %p by compiled code:\n%s\n",
                    site->is_store ? "store" : "load", size, address, site->text);
}

/* A page that does not exist: say where, then crash as without this. */
static void crashed(int number)
{
    char line[1024];
    const char *log = getenv("CHECKED_LOG");
    int length, file = log ? open(log, O_WRONLY | O_CREAT | O_APPEND, 0600) : 2;
    signal(number, SIG_DFL);
    if (latest.site == NULL)
        return;
    length = describe(line, sizeof line, latest.address, latest.size, latest.site);
    if (write(file, "crashed, the last use of memory is a ", 37) < 0 ||
        write(file, line, length) < 0)
        return;
}

__attribute__((constructor)) static void begin(void)
{
    size_t scale;
    __asan_get_shadow_mapping(&scale, &shadow);
    if (scale != 3)
        abort();
    __asan_set_error_report_callback(keep);
    signal(SIGSEGV, crashed);
    signal(SIGBUS, crashed);
}

/* What was reported since the last call. */
const char *checked_reports(void)
{
    filled = 0;
    return reports;
}

void checked_forget(void)
{
    filled = 0;
    reports[0] = 0;
}

/* Get blocks of all sizes, more of each than a thread keeps: every lock of the allocator is taken. */
void checked_allocate(void)
{
    void *blocks[600];
    for (size_t size = 16; size <= 1 << 17; size += size / 8 > 16 ? size / 8 : 16) {
        size_t count = (1 << 17) / size + 2;
        if (count > 600)
            count = 600;
        for (size_t i = 0; i < count; i++)
            blocks[i] = malloc(size);
        for (size_t i = 0; i < count; i++)
            free(blocks[i]);
    }
}

static __attribute__((noinline)) void found(void *address, size_t size, struct site *site)
{
    char line[1024];
    if (__atomic_exchange_n(&site->seen, 1, __ATOMIC_SEQ_CST))
        return;
    describe(line, sizeof line, address, size, site);
    keep(line);
    if (site->is_store)
        __asan_report_store_n_noabort(address, size);
    else
        __asan_report_load_n_noabort(address, size);
}

/* Called before each load and store of `size` bytes. */
void checked_access(void *address, size_t size, struct site *site)
{
    uintptr_t first = (uintptr_t)address, last = first + size - 1;
    latest.address = address;
    latest.size = size;
    latest.site = site;
    if (size - 1 < 64 && first >= LOWEST && last <= HIGHEST) {
        /* Eight bytes share a byte of the shadow, which is 0 where all of them may be used. */
        const unsigned char *from = (const unsigned char *)(shadow + (first >> 3));
        const unsigned char *to = (const unsigned char *)(shadow + (last >> 3));
        unsigned char any = 0;
        do
            any |= *from;
        while (from++ < to);
        if (!any)
            return;
    }
    if (size && __asan_region_is_poisoned(address, size))
        found(address, size, site);
}

/* The same for a lane of a vector, if it is used at all. */
void checked_lane(void *address, size_t size, struct site *site, int used)
{
    if (used)
        checked_access(address, size, site);
}

/* Matrices as BLAS is given them. */
#define SITE(name, store) \
    static struct { char seen, is_store, text[8]; } name = {0, store, "BLAS"}

SITE(read_site, 0);
SITE(written_site, 1);

static void matrix(char *start, int rows, int columns, int step, size_t width, void *site)
{
    int column;
    for (column = 0; column < columns && rows > 0; column++)
        checked_access(start + (size_t)column * step * width, rows * width, site);
}

/* A vector whose step is negative begins at its other end. */
static void vector(char *start, int count, int step, size_t width, void *site)
{
    matrix(start, 1, count, step < 0 ? -step : step, width, site);
}

static int is_plain(const char *letter)
{
    return *letter == 'n' || *letter == 'N';
}

#define BLAS(letter, kind)                                                                       \
    void (*real_##letter##gemm)(char *, char *, int *, int *, int *, kind *, kind *, int *,      \
                                kind *, int *, kind *, kind *, int *);                           \
    void checked_##letter##gemm(char *ta, char *tb, int *m, int *n, int *k, kind *alpha,         \
                                kind *a, int *lda, kind *b, int *ldb, kind *beta, kind *c,       \
                                int *ldc)                                                        \
    {                                                                                            \
        int pa = is_plain(ta), pb = is_plain(tb);                                                \
        matrix((char *)a, pa ? *m : *k, pa ? *k : *m, *lda, sizeof(kind), &read_site);           \
        matrix((char *)b, pb ? *k : *n, pb ? *n : *k, *ldb, sizeof(kind), &read_site);           \
        matrix((char *)c, *m, *n, *ldc, sizeof(kind), &written_site);                            \
        real_##letter##gemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);               \
    }                                                                                            \
    void (*real_##letter##gemv)(char *, int *, int *, kind *, kind *, int *, kind *, int *,      \
                                kind *, kind *, int *);                                          \
    void checked_##letter##gemv(char *t, int *m, int *n, kind *alpha, kind *a, int *lda,         \
                                kind *x, int *incx, kind *beta, kind *y, int *incy)              \
    {                                                                                            \
        int plain = is_plain(t);                                                                 \
        matrix((char *)a, *m, *n, *lda, sizeof(kind), &read_site);                               \
        vector((char *)x, plain ? *n : *m, *incx, sizeof(kind), &read_site);                     \
        vector((char *)y, plain ? *m : *n, *incy, sizeof(kind), &written_site);                  \
        real_##letter##gemv(t, m, n, alpha, a, lda, x, incx, beta, y, incy);                     \
    }

BLAS(d, double)
BLAS(s, float)

/* NumPy's way to memory, without the small blocks that it keeps. */
static void *plain_malloc(void *context, size_t size)
{
    return malloc(size ? size : 1);
}

static void *plain_calloc(void *context, size_t count, size_t size)
{
    return calloc(count ? count : 1, size ? size : 1);
}

static void *plain_realloc(void *context, void *memory, size_t size)
{
    return realloc(memory, size ? size : 1);
}

static void plain_free(void *context, void *memory, size_t size)
{
    free(memory);
}

struct {
    char name[127];
    uint8_t version;
    void *context;
    void *(*malloc)(void *, size_t);
    void *(*calloc)(void *, size_t, size_t);
    void *(*realloc)(void *, void *, size_t);
    void (*free)(void *, void *, size_t);
} checked_handler = {"default_allocator", 1, NULL, plain_malloc, plain_calloc, plain_realloc, plain_free};

size_t checked_handler_bytes(void)
{
    return sizeof checked_handler;
}
