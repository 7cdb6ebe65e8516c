// Preloaded into a broker: its writes to segments take as long as on a slow disk (slow_disk.py).
//
// SLOW_DISK_WRITE_MS: each write takes so long; writes of several threads wait at the same time.
// SLOW_DISK_STALL_MS, SLOW_DISK_STALL_EVERY_MS: the disk stalls, for all writes, so often.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static double next_stall, stalled_until;

static double setting(const char *name) {
    const char *text = getenv(name);
    return text ? atof(text) / 1000 : 0;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static int is_segment(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 24) return 0;
    path[length] = 0;
    return !strcmp(path + length - 4, ".log") && strspn(path + length - 24, "0123456789") == 20;
}

static void delay(int fd) {
    if (!is_segment(fd)) return;
    double begin = now(), until, every = setting("SLOW_DISK_STALL_EVERY_MS");
    pthread_mutex_lock(&lock);
    if (every > 0 && begin >= next_stall) {
        if (next_stall) stalled_until = begin + setting("SLOW_DISK_STALL_MS");
        next_stall = begin + every;
    }
    until = begin > stalled_until ? begin : stalled_until;
    pthread_mutex_unlock(&lock);
    double rest = until + setting("SLOW_DISK_WRITE_MS") - begin;
    if (rest > 0) {
        struct timespec time = {(time_t)rest, (long)((rest - (time_t)rest) * 1e9)};
        nanosleep(&time, NULL);
    }
}

#define DELAYED(name, parameters, arguments)                                   \
    ssize_t name parameters {                                                  \
        static ssize_t(*original) parameters;                                  \
        if (!original) original = (ssize_t(*) parameters)dlsym(RTLD_NEXT, #name); \
        ssize_t written = original arguments;                                  \
        if (written > 0) delay(fd);                                            \
        return written;                                                        \
    }

DELAYED(write, (int fd, const void *data, size_t size), (fd, data, size))
DELAYED(writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
DELAYED(pwrite, (int fd, const void *data, size_t size, off_t position), (fd, data, size, position))
DELAYED(pwrite64, (int fd, const void *data, size_t size, off64_t position), (fd, data, size, position))
DELAYED(pwritev, (int fd, const struct iovec *parts, int count, off_t position), (fd, parts, count, position))
