/* CUDA's driver interface, as far as a program needs it that allocates: on the GPUs of the stand-in.

   Built as libcuda.so.1 in a folder of its own, for programs that are to find it and no others. What is set aside
   for a context is what a real one costs. With STANDIN_HIDES the driver does not show its processes, as in a container. */
#include "state.h"

#include <stdlib.h>
#include <string.h>

enum result {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_CONTEXT = 201,
};

#define CONTEXT_BYTES (256ull << 20)

int64_t standin_allocate(struct state *state, int number, int pid, uint64_t bytes, int kind, int shown, int mortal);
uint64_t standin_free(struct state *state, uint64_t serial, int64_t after_ns);
int standin_number(struct state *state, const char *uuid);
int getpid(void);

static struct state *state;
static int visible[MOST_GPUS], visible_count;
static _Thread_local int current = -1; /* a context is current in one thread alone */
static int contexts[MOST_GPUS];

static void see(int gpu) {
    if (gpu >= 0 && state->gpus[gpu].present && visible_count < MOST_GPUS) visible[visible_count++] = gpu;
}

int cuInit(unsigned flags) {
    const char *path = getenv("STANDIN_DRIVER"), *wanted = getenv("CUDA_VISIBLE_DEVICES");
    if (flags != 0) return INVALID_VALUE;
    if (path == NULL || (state = standin_open(path)) == NULL || !state->loaded) return NO_DEVICE;
    visible_count = 0;
    if (wanted == NULL) {
        for (int i = 0; i < (int)state->gpu_count; i++)
            if (state->gpus[i].parent < 0) see(i);
    } else {
        char *copy = strdup(wanted), *rest = copy;
        for (char *uuid; (uuid = strsep(&rest, ",")) != NULL;) see(standin_number(state, uuid));
        free(copy);
    }
    return visible_count > 0 ? SUCCESS : NO_DEVICE;
}

int cuDeviceGetCount(int *count) {
    *count = visible_count;
    return state == NULL ? NOT_INITIALIZED : SUCCESS;
}

int cuDeviceGet(int *device, int ordinal) {
    if (state == NULL) return NOT_INITIALIZED;
    if (ordinal < 0 || ordinal >= visible_count) return INVALID_VALUE;
    *device = ordinal;
    return SUCCESS;
}

static int allocate(int ordinal, uint64_t bytes, int64_t *serial) {
    enum shown shown = getenv("STANDIN_HIDES") == NULL ? SHOWN : HIDDEN;
    *serial = standin_allocate(state, visible[ordinal], getpid(), bytes, COMPUTE, shown, 1);
    return *serial > 0 ? SUCCESS : OUT_OF_MEMORY;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    int64_t serial;
    if (state == NULL) return NOT_INITIALIZED;
    if (contexts[device]++ == 0 && allocate(device, CONTEXT_BYTES, &serial) != SUCCESS) return OUT_OF_MEMORY;
    *context = &contexts[device];
    return SUCCESS;
}

int cuCtxSetCurrent(void *context) {
    current = (int)((int *)context - contexts);
    return SUCCESS;
}

int cuMemAlloc_v2(unsigned long long *at, size_t bytes) {
    return current < 0 ? INVALID_CONTEXT : allocate(current, bytes, (int64_t *)at);
}

int cuMemFree_v2(unsigned long long at) {
    if (current < 0) return INVALID_CONTEXT;
    return standin_free(state, at, 0) > 0 ? SUCCESS : INVALID_VALUE;
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    if (current < 0) return INVALID_CONTEXT;
    const struct gpu *gpu = &state->gpus[visible[current]];
    standin_lock(state);
    standin_reap(state);
    *total = gpu->total - gpu->reserved;
    *free_bytes = *total - standin_sum(state, visible[current]);
    standin_unlock(state);
    return SUCCESS;
}
