/* A disk that loses what it could not sync, for a program that loads this library first.
 *
 * Once there is a file with the name in LOSING_DISK_FAILS, the next sync of the database fails, and
 * everything that was written to it since the sync before is undone, as by a system that drops what
 * it could not write. The file is removed, so that later syncs succeed, as those of Linux do.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static const char DATABASE[] = "/tombola.sqlite3";

/* What a write has replaced. The file descriptor is that of the write: another one may be open for
 * reading only. */
struct replaced {
    struct replaced *before;
    int file;
    off_t offset;
    size_t size;
    char bytes[];
};

static struct replaced *replaced;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int is_database(int file)
{
    char link[64], path[4096];
    char *end = link + sizeof link - 1;
    const char prefix[] = "/proc/self/fd/";
    *end = 0;
    unsigned number = file;
    do {
        *--end = '0' + number % 10;
        number /= 10;
    } while (number);
    end -= sizeof prefix - 1;
    memcpy(end, prefix, sizeof prefix - 1);
    ssize_t length = readlink(end, path, sizeof path);
    size_t name = sizeof DATABASE - 1;
    return length >= (ssize_t)name && memcmp(path + length - name, DATABASE, name) == 0;
}

static void keep(int file, off_t offset, size_t size)
{
    struct replaced *kept = calloc(1, sizeof *kept + size);
    if (!kept)
        abort();
    kept->file = file;
    kept->offset = offset;
    kept->size = size;
    (void)!pread(file, kept->bytes, size, offset); /* what is behind the end is zero */
    pthread_mutex_lock(&lock);
    kept->before = replaced;
    replaced = kept;
    pthread_mutex_unlock(&lock);
}

static ssize_t write_at(int file, const void *bytes, size_t size, off_t offset)
{
    static ssize_t (*real)(int, const void *, size_t, off_t);
    if (!real)
        real = dlsym(RTLD_NEXT, "pwrite");
    return real(file, bytes, size, offset);
}

/* Ends what was written since the last sync: it is kept, or undone. */
static void end(int is_undone)
{
    int writes = 0;
    pthread_mutex_lock(&lock);
    while (replaced) {
        struct replaced *last = replaced;
        if (is_undone) {
            ssize_t undone = write_at(last->file, last->bytes, last->size, last->offset);
            if (undone != (ssize_t)last->size)
                abort();
            writes++;
        }
        replaced = last->before;
        free(last);
    }
    pthread_mutex_unlock(&lock);
    if (writes)
        dprintf(2, "the disk has lost %d writes\n", writes);
}

ssize_t write(int file, const void *bytes, size_t size)
{
    static ssize_t (*real)(int, const void *, size_t);
    if (!real)
        real = dlsym(RTLD_NEXT, "write");
    if (is_database(file))
        keep(file, lseek(file, 0, SEEK_CUR), size);
    return real(file, bytes, size);
}

ssize_t pwrite(int file, const void *bytes, size_t size, off_t offset)
{
    if (is_database(file))
        keep(file, offset, size);
    return write_at(file, bytes, size, offset);
}

ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t offset)
{
    return pwrite(file, bytes, size, offset);
}

static int sync_by(const char *name, int file)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    const char *fails = getenv("LOSING_DISK_FAILS");
    if (is_database(file)) {
        int is_undone = fails && unlink(fails) == 0;
        end(is_undone);
        if (is_undone) {
            errno = EIO;
            return -1;
        }
    }
    return real(file);
}

int fsync(int file)
{
    return sync_by("fsync", file);
}

int fdatasync(int file)
{
    return sync_by("fdatasync", file);
}
