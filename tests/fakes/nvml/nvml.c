/* NVIDIA's management library, as far as lazyd asks it: answers out of the state file that STANDIN_DRIVER names.

   Built as libnvidia-ml.so.1 and put first on LD_LIBRARY_PATH, it serves the real nvidia-ml-py. Names, structures
   and numbers are those of NVML's interface. */
#include "state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum result {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    GPU_IS_LOST = 15,
    ARGUMENT_VERSION_MISMATCH = 25,
};

typedef struct {
    int gpu;
} *device;
typedef struct {
    unsigned long long total, free, used;
} memory_v1;
typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} memory_v2;
typedef struct {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
} process;
typedef struct {
    unsigned version, sensor;
    int temperature;
} temperature_v1;

#define MEMORY_V2 0x02000028u
#define NOT_AVAILABLE (~0ull)
#define NO_INSTANCE (~0u)

static pthread_mutex_t mine = PTHREAD_MUTEX_INITIALIZER;
static struct state *state;
static char *opened; /* its path */
static int users; /* calls of nvmlInit without their nvmlShutdown */
static uint32_t epoch;
static struct {
    int gpu;
} handles[MOST_GPUS];

/* Takes the first fault that is meant. Whether there was one. */
static int fault_for(const char *function, int gpu, struct fault *found) {
    int is = 0;
    standin_lock(state);
    state->calls++;
    for (int i = 0; !is && i < MOST_FAULTS; i++) {
        struct fault *each = &state->faults[i];
        if (strcmp(each->function, function) != 0 && strcmp(each->function, "*") != 0) continue;
        if (each->function[0] == 0 || (each->gpu >= 0 && each->gpu != gpu)) continue;
        *found = *each;
        is = 1;
        if (each->times > 0 && --each->times == 0) each->function[0] = 0;
    }
    standin_unlock(state);
    return is;
}

static void hang(const struct fault *fault) {
    const struct timespec pause = {.tv_nsec = 2000000};
    int64_t end = standin_now_ns() + fault->hang_ns;
    uint32_t heals = state->heals;
    __atomic_add_fetch(&state->hanging, 1, __ATOMIC_SEQ_CST);
    while ((fault->hang_ns < 0 || standin_now_ns() < end) && __atomic_load_n(&state->heals, __ATOMIC_SEQ_CST) == heals)
        nanosleep(&pause, NULL);
    __atomic_sub_fetch(&state->hanging, 1, __ATOMIC_SEQ_CST);
}

/* What comes before every answer. `gpu` is -1 where a function is about none. */
static enum result gate(const char *function, int gpu) {
    struct fault fault;
    if (state == NULL || users == 0) return UNINITIALIZED;
    if (fault_for(function, gpu, &fault)) {
        if (fault.hang_ns != 0) hang(&fault);
        if (fault.error != 0) return (enum result)fault.error;
    }
    if (!state->loaded) return DRIVER_NOT_LOADED;
    if (state->epoch != epoch) return UNINITIALIZED;
    if (gpu >= 0 && !state->gpus[gpu].present) return INVALID_ARGUMENT;
    int parent = gpu >= 0 ? state->gpus[gpu].parent : -1;
    if (gpu >= 0 && (state->gpus[gpu].lost || (parent >= 0 && state->gpus[parent].lost))) return GPU_IS_LOST;
    return SUCCESS;
}

#define ENTER(gpu)                                      \
    do {                                                \
        enum result opened = gate(__func__, gpu);       \
        if (opened != SUCCESS) return opened;           \
    } while (0)

static enum result copy(const char *text, char *to, unsigned length) {
    if (strlen(text) >= length) return INSUFFICIENT_SIZE;
    strcpy(to, text);
    return SUCCESS;
}

/* The n-th GPU, or the n-th instance of a divided one (`parent`); -1 if there is none. */
static int nth(int parent, unsigned n) {
    for (int i = 0; i < (int)state->gpu_count; i++)
        if (state->gpus[i].present && state->gpus[i].parent == parent && n-- == 0) return i;
    return -1;
}

static enum result hand_out(int gpu, device *to) {
    if (gpu < 0) return NOT_FOUND;
    handles[gpu].gpu = gpu;
    *to = (device)&handles[gpu];
    return SUCCESS;
}

enum result nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    /* Not locked while it hangs: who is shut down, or asks whether it is, must not hang as well. */
    pthread_mutex_lock(&mine);
    const char *path = getenv("STANDIN_DRIVER");
    if (users == 0 && (path == NULL || opened == NULL || strcmp(path, opened) != 0)) {
        free(opened); /* what was mapped stays so: a call that hangs may come back to it */
        opened = path == NULL ? NULL : strdup(path);
        state = path == NULL ? NULL : standin_open(path);
        if (path != NULL && state == NULL) fprintf(stderr, "stand-in driver: %s: %s\n", path, strerror(errno));
    }
    if (state != NULL) users++;
    pthread_mutex_unlock(&mine);
    if (state == NULL) return DRIVER_NOT_LOADED;
    uint32_t before = __atomic_exchange_n(&epoch, state->epoch, __ATOMIC_SEQ_CST);
    enum result result = gate("nvmlInitWithFlags", -1);
    if (result != SUCCESS) {
        pthread_mutex_lock(&mine);
        users--;
        epoch = before;
        pthread_mutex_unlock(&mine);
    }
    return result;
}

enum result nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

enum result nvmlShutdown(void) {
    pthread_mutex_lock(&mine);
    enum result result = users > 0 ? SUCCESS : UNINITIALIZED;
    if (users > 0) users--;
    pthread_mutex_unlock(&mine);
    return result;
}

const char *nvmlErrorString(enum result result) {
    static char text[32];
    snprintf(text, sizeof text, "error %d of the stand-in", result);
    return text;
}

enum result nvmlSystemGetDriverVersion(char *version, unsigned length) {
    ENTER(-1);
    return copy("999.0 (stand-in)", version, length);
}

enum result nvmlDeviceGetCount_v2(unsigned *count) {
    ENTER(-1);
    for (*count = 0; nth(-1, *count) >= 0;) ++*count;
    return SUCCESS;
}

enum result nvmlDeviceGetHandleByIndex_v2(unsigned index, device *to) {
    int gpu = state == NULL ? -1 : nth(-1, index);
    ENTER(gpu);
    return gpu < 0 ? INVALID_ARGUMENT : hand_out(gpu, to);
}

enum result nvmlDeviceGetHandleByUUID(const char *uuid, device *to) {
    int gpu = -1;
    for (int i = 0; state != NULL && i < (int)state->gpu_count; i++)
        if (state->gpus[i].present && strcmp(state->gpus[i].uuid, uuid) == 0) gpu = i;
    ENTER(gpu);
    return hand_out(gpu, to);
}

enum result nvmlDeviceGetUUID(device of, char *uuid, unsigned length) {
    ENTER(of->gpu);
    return copy(state->gpus[of->gpu].uuid, uuid, length);
}

enum result nvmlDeviceGetName(device of, char *name, unsigned length) {
    ENTER(of->gpu);
    return copy(state->gpus[of->gpu].name, name, length);
}

/* Version 1 counts as used what the driver has reserved for itself; version 2 counts it apart. */
static memory_v2 memory(int gpu) {
    standin_lock(state);
    standin_reap(state);
    memory_v2 is = {MEMORY_V2, state->gpus[gpu].total, state->gpus[gpu].reserved, 0, standin_sum(state, gpu)};
    standin_unlock(state);
    is.free = is.total - is.reserved - is.used;
    return is;
}

enum result nvmlDeviceGetMemoryInfo(device of, memory_v1 *to) {
    ENTER(of->gpu);
    memory_v2 is = memory(of->gpu);
    *to = (memory_v1){is.total, is.free, is.used + is.reserved};
    return SUCCESS;
}

enum result nvmlDeviceGetMemoryInfo_v2(device of, memory_v2 *to) {
    ENTER(of->gpu);
    if (to->version != MEMORY_V2) return ARGUMENT_VERSION_MISMATCH;
    *to = memory(of->gpu);
    return SUCCESS;
}

/* Processes with what they hold, as one list for each kind: a process may be on several. */
static enum result processes(int gpu, enum kind kind, unsigned *count, process *to) {
    process found[MOST_ALLOCATIONS];
    unsigned n = 0;
    standin_lock(state);
    standin_reap(state);
    for (int i = 0; i < MOST_ALLOCATIONS; i++) {
        const struct allocation *each = &state->allocations[i];
        if (each->serial == 0 || each->kind != kind || each->shown == HIDDEN) continue;
        if (each->until_ns != 0 && !state->lists_dead) continue;
        int parent = state->gpus[each->gpu].parent;
        if (each->gpu != gpu && parent != gpu) continue;
        unsigned at = 0;
        while (at < n && found[at].pid != (unsigned)each->pid) at++;
        if (at == n)
            found[n++] = (process){(unsigned)each->pid, 0,
                                   parent >= 0 ? state->gpus[each->gpu].memory_group : NO_INSTANCE,
                                   parent >= 0 ? 0 : NO_INSTANCE};
        if (each->shown == WITHOUT_BYTES)
            found[at].bytes = NOT_AVAILABLE;
        else if (found[at].bytes != NOT_AVAILABLE)
            found[at].bytes += each->bytes;
    }
    standin_unlock(state);
    unsigned room = to == NULL ? 0 : *count;
    *count = n;
    if (n > room) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < n; i++) to[i] = found[i];
    return SUCCESS;
}

#define PROCESSES(name, kind)                                        \
    enum result name(device of, unsigned *count, process *to) {      \
        ENTER(of->gpu);                                              \
        return processes(of->gpu, kind, count, to);                  \
    }
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, COMPUTE)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, COMPUTE)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, GRAPHICS)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, GRAPHICS)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, MPS)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, MPS)

enum result nvmlDeviceGetMigMode(device of, unsigned *current, unsigned *pending) {
    ENTER(of->gpu);
    if (state->gpus[of->gpu].mig == UNDIVIDABLE) return NOT_SUPPORTED;
    *current = *pending = state->gpus[of->gpu].mig == DIVIDED;
    return SUCCESS;
}

enum result nvmlDeviceGetMaxMigDeviceCount(device of, unsigned *count) {
    ENTER(of->gpu);
    *count = state->gpus[of->gpu].mig == UNDIVIDABLE ? 0 : 7;
    return SUCCESS;
}

enum result nvmlDeviceGetMigDeviceHandleByIndex(device of, unsigned index, device *to) {
    ENTER(of->gpu);
    return hand_out(nth(of->gpu, index), to);
}

enum result nvmlDeviceIsMigDeviceHandle(device of, unsigned *is) {
    ENTER(of->gpu);
    *is = state->gpus[of->gpu].parent >= 0;
    return SUCCESS;
}

enum result nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device of, device *to) {
    ENTER(of->gpu);
    int parent = state->gpus[of->gpu].parent;
    return parent < 0 ? INVALID_ARGUMENT : hand_out(parent, to);
}

enum result nvmlDeviceGetGpuInstanceId(device of, unsigned *id) {
    ENTER(of->gpu);
    if (state->gpus[of->gpu].parent < 0) return NOT_SUPPORTED;
    *id = state->gpus[of->gpu].memory_group;
    return SUCCESS;
}

/* Sensors are the whole GPU's. */

enum result nvmlDeviceGetTemperature(device of, unsigned sensor, unsigned *to) {
    ENTER(of->gpu);
    if (state->gpus[of->gpu].parent >= 0) return NOT_SUPPORTED;
    (void)sensor;
    *to = state->gpus[of->gpu].temperature_c;
    return SUCCESS;
}

enum result nvmlDeviceGetTemperatureV(device of, temperature_v1 *to) {
    ENTER(of->gpu);
    if (state->gpus[of->gpu].parent >= 0) return NOT_SUPPORTED;
    to->temperature = (int)state->gpus[of->gpu].temperature_c;
    return SUCCESS;
}

enum result nvmlDeviceGetPowerUsage(device of, unsigned *to) {
    ENTER(of->gpu);
    if (state->gpus[of->gpu].parent >= 0) return NOT_SUPPORTED;
    *to = state->gpus[of->gpu].power_mw;
    return SUCCESS;
}
