/* The state of the stand-in driver and what tests do with it; see state.h. */
#define _GNU_SOURCE
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int64_t standin_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

void standin_lock(struct state *state) {
    if (pthread_mutex_lock(&state->lock) == EOWNERDEAD) pthread_mutex_consistent(&state->lock);
}

void standin_unlock(struct state *state) { pthread_mutex_unlock(&state->lock); }

static struct state *map(int fd) {
    void *at = mmap(NULL, sizeof(struct state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? NULL : at;
}

/* A new file. Returns 0, or errno. */
int standin_create(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return errno;
    if (ftruncate(fd, sizeof(struct state)) != 0) {
        int error = errno;
        close(fd);
        return error;
    }
    struct state *state = map(fd);
    if (state == NULL) return errno;
    pthread_mutexattr_t shared;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&state->lock, &shared);
    state->loaded = 1;
    state->layout = STANDIN_LAYOUT;
    state->magic = STANDIN_MAGIC;
    munmap(state, sizeof(struct state));
    return 0;
}

/* NULL with errno, if it cannot be opened or is no such file. It stays mapped. */
struct state *standin_open(const char *path) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return NULL;
    if (lseek(fd, 0, SEEK_END) != (off_t)sizeof(struct state)) {
        close(fd);
        errno = EINVAL;
        return NULL;
    }
    struct state *state = map(fd);
    if (state != NULL && (state->magic != STANDIN_MAGIC || state->layout != STANDIN_LAYOUT)) {
        munmap(state, sizeof(struct state));
        errno = EINVAL;
        return NULL;
    }
    return state;
}

/* When a living process was started, in ticks since the machine was; 0: there is none, or a zombie, whose
   memory the driver has taken back already. */
static uint64_t started(int pid) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got <= 0) return 0;
    text[got] = 0;
    char *field = strrchr(text, ')'); /* a process may be called anything */
    if (field == NULL || field[1] == 0 || strchr("ZXx", field[2]) != NULL) return 0;
    for (int n = 2; n < 22 && field != NULL; n++) field = strchr(field + 1, ' ');
    return field == NULL ? 0 : strtoull(field, NULL, 10);
}

/* A driver takes a while to give back what a dead process had, all of it at once. How long is the same at every
   run: it depends on nothing but the order of allocations. */
static int64_t delay_ns(const struct state *state, const struct allocation *of) {
    uint64_t first = of->serial;
    for (int i = 0; i < MOST_ALLOCATIONS; i++) {
        const struct allocation *other = &state->allocations[i];
        if (other->serial != 0 && other->pid == of->pid && other->started == of->started && other->serial < first)
            first = other->serial;
    }
    int64_t span = state->release_most_ns - state->release_least_ns;
    if (span <= 0) return state->release_least_ns;
    return state->release_least_ns + (int64_t)((first * 0x9e3779b97f4a7c15ull) >> 33) % span;
}

/* Keeps in mind what has happened to an allocation. */
static void note(struct state *state, enum what what, const struct allocation *of, int64_t now) {
    struct happening *each = &state->happenings[state->happened++ % MOST_HAPPENINGS];
    each->at_ns = now;
    each->serial = of->serial;
    each->bytes = of->bytes;
    each->pid = of->pid;
    each->gpu = of->gpu;
    each->what = what;
    each->shown = of->shown;
    each->used = state->gpus[of->gpu].reserved + standin_sum(state, of->gpu);
}

/* Lets go of what dead processes had, and forgets what is due. Their death counts from when it is first seen. */
void standin_reap(struct state *state) {
    int64_t now = standin_now_ns();
    int asked = 0;
    uint64_t answer = 0;
    for (int i = 0; i < MOST_ALLOCATIONS; i++) {
        struct allocation *each = &state->allocations[i];
        if (each->serial == 0) continue;
        if (each->until_ns == 0 && each->started != 0) {
            if (each->pid != asked) answer = started(asked = each->pid);
            if (answer != each->started) {
                each->until_ns = now + delay_ns(state, each);
                note(state, LET_GO, each, now);
            }
        }
        if (each->until_ns != 0 && each->until_ns <= now) {
            struct allocation was = *each;
            memset(each, 0, sizeof *each);
            note(state, GIVEN_BACK, &was, now);
        }
    }
}

/* Bytes allocated on a GPU; on a divided one, on all its instances. */
uint64_t standin_sum(const struct state *state, int gpu) {
    uint64_t sum = 0;
    for (int i = 0; i < MOST_ALLOCATIONS; i++) {
        const struct allocation *each = &state->allocations[i];
        if (each->serial != 0 && (each->gpu == gpu || state->gpus[each->gpu].parent == gpu)) sum += each->bytes;
    }
    return sum;
}

/* What follows is what a test does. */

/* Its number; -1: there are too many. */
int standin_add(struct state *state, const char *name, uint64_t total, uint64_t reserved, int parent) {
    standin_lock(state);
    int number = state->gpu_count < MOST_GPUS ? (int)state->gpu_count++ : -1;
    if (number >= 0) {
        struct gpu *gpu = &state->gpus[number];
        snprintf(gpu->uuid, sizeof gpu->uuid, "%s-00000000-0000-4000-8000-%012d", parent < 0 ? "GPU" : "MIG", number);
        snprintf(gpu->name, sizeof gpu->name, "%s", name);
        gpu->total = total;
        gpu->reserved = reserved;
        gpu->parent = parent;
        gpu->memory_group = (uint32_t)number;
        gpu->temperature_c = 40;
        gpu->power_mw = 30000;
        gpu->present = 1;
    }
    standin_unlock(state);
    return number;
}

/* NULL if there is none. */
static struct gpu *gpu_of(struct state *state, int number) {
    return number >= 0 && number < (int)state->gpu_count ? &state->gpus[number] : NULL;
}

const char *standin_uuid(struct state *state, int number) {
    struct gpu *gpu = gpu_of(state, number);
    return gpu == NULL ? NULL : gpu->uuid;
}

/* -1: there is none. */
int standin_number(struct state *state, const char *uuid) {
    for (int i = 0; i < (int)state->gpu_count; i++)
        if (strcmp(state->gpus[i].uuid, uuid) == 0) return i;
    return -1;
}

/* The serial of a new allocation, or an enum refusal. `mortal`: it ends with the process. */
int64_t standin_allocate(struct state *state, int number, int pid, uint64_t bytes, int kind, int shown, int mortal) {
    struct gpu *gpu = gpu_of(state, number);
    if (gpu == NULL || !gpu->present || gpu->lost) return NO_GPU;
    uint64_t began = mortal ? started(pid) : 0;
    if (mortal && began == 0) return NO_PROCESS;
    standin_lock(state);
    standin_reap(state);
    int64_t result = NO_SLOT;
    uint64_t used = gpu->reserved + standin_sum(state, number);
    if (used + bytes > gpu->total) {
        struct allocation wanted = {.bytes = bytes, .pid = pid, .gpu = number, .shown = (uint32_t)shown};
        gpu->refused++;
        note(state, REFUSED, &wanted, standin_now_ns());
        result = NO_MEMORY;
    }
    for (int i = 0; result == NO_SLOT && i < MOST_ALLOCATIONS; i++) {
        struct allocation *slot = &state->allocations[i];
        if (slot->serial != 0) continue;
        slot->serial = ++state->serial;
        slot->bytes = bytes;
        slot->started = began;
        slot->until_ns = 0;
        slot->pid = pid;
        slot->gpu = number;
        slot->kind = (uint32_t)kind;
        slot->shown = (uint32_t)shown;
        note(state, TAKEN, slot, standin_now_ns());
        if (used + bytes > gpu->highest) gpu->highest = used + bytes;
        result = (int64_t)slot->serial;
    }
    standin_unlock(state);
    return result;
}

/* Gives an allocation back after a while, or at once (0). Returns its bytes; 0 if there was none. */
uint64_t standin_free(struct state *state, uint64_t serial, int64_t after_ns) {
    uint64_t bytes = 0;
    standin_lock(state);
    for (int i = 0; i < MOST_ALLOCATIONS; i++) {
        struct allocation *each = &state->allocations[i];
        if (each->serial != serial || serial == 0 || each->until_ns != 0) continue;
        bytes = each->bytes;
        each->until_ns = standin_now_ns() + after_ns;
        note(state, LET_GO, each, standin_now_ns());
    }
    standin_reap(state);
    standin_unlock(state);
    return bytes;
}

/* Bytes in use, with those that are reserved. */
uint64_t standin_used(struct state *state, int number) {
    struct gpu *gpu = gpu_of(state, number);
    if (gpu == NULL) return 0;
    standin_lock(state);
    standin_reap(state);
    uint64_t used = gpu->reserved + standin_sum(state, number);
    standin_unlock(state);
    return used;
}

/* Bytes that a living process holds, shown or not. */
uint64_t standin_held(struct state *state, int number, int pid) {
    uint64_t held = 0;
    standin_lock(state);
    standin_reap(state);
    for (int i = 0; i < MOST_ALLOCATIONS; i++) {
        const struct allocation *each = &state->allocations[i];
        if (each->serial != 0 && each->until_ns == 0 && each->gpu == number && each->pid == pid) held += each->bytes;
    }
    standin_unlock(state);
    return held;
}

/* The happening of this number, counted from 0; 0 if it is not kept any more, or has not happened yet. */
int standin_happening(struct state *state, uint64_t number, struct happening *found) {
    standin_lock(state);
    int kept = number < state->happened && state->happened - number <= MOST_HAPPENINGS;
    if (kept) *found = state->happenings[number % MOST_HAPPENINGS];
    standin_unlock(state);
    return kept;
}

uint64_t standin_happened(struct state *state) { return state->happened; }

/* 0, or -1 if there are too many. */
int standin_break(struct state *state, const char *function, int gpu, int error, int64_t hang_ns, unsigned times) {
    int result = -1;
    standin_lock(state);
    for (int i = 0; result != 0 && i < MOST_FAULTS; i++) {
        struct fault *slot = &state->faults[i];
        if (slot->function[0] != 0) continue;
        snprintf(slot->function, sizeof slot->function, "%s", function);
        slot->gpu = gpu;
        slot->error = error;
        slot->hang_ns = hang_ns;
        slot->times = times;
        result = 0;
    }
    standin_unlock(state);
    return result;
}

/* Everything answers again, and what hangs goes on. */
void standin_heal(struct state *state) {
    standin_lock(state);
    memset(state->faults, 0, sizeof state->faults);
    state->heals++;
    standin_unlock(state);
}

void standin_set_release(struct state *state, int64_t least_ns, int64_t most_ns) {
    standin_lock(state);
    state->release_least_ns = least_ns;
    state->release_most_ns = most_ns;
    standin_unlock(state);
}

void standin_set_lists_dead(struct state *state, int lists) {
    standin_lock(state);
    state->lists_dead = (uint32_t)lists;
    standin_unlock(state);
}

void standin_set_loaded(struct state *state, int loaded) {
    standin_lock(state);
    state->loaded = (uint32_t)loaded;
    state->epoch++;
    standin_unlock(state);
}

#define SETTER(field)                                                              \
    void standin_set_##field(struct state *state, int number, uint32_t value) {    \
        struct gpu *gpu = gpu_of(state, number);                              \
        if (gpu != NULL) gpu->field = value;                                       \
    }
SETTER(present)
SETTER(lost)
SETTER(mig)
SETTER(memory_group)
SETTER(temperature_c)
SETTER(power_mw)

uint64_t standin_highest(struct state *state, int number) { return state->gpus[number].highest; }
uint64_t standin_refused(struct state *state, int number) { return state->gpus[number].refused; }
uint64_t standin_calls(struct state *state) { return state->calls; }
uint32_t standin_count(struct state *state) { return state->gpu_count; }
uint32_t standin_hanging(struct state *state) { return state->hanging; }
