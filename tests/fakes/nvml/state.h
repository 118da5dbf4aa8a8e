/* What the stand-in driver knows: GPUs, what is allocated on them, and what is to go wrong.

   All of it lies in one file that every process maps. A lock inside it, shared between processes and
   robust (its holder may be killed), guards everything; no call waits or hangs while it holds it. */
#ifndef STANDIN_STATE_H
#define STANDIN_STATE_H

#include <pthread.h>
#include <stdint.h>

#define STANDIN_MAGIC 0x4c5a4756u
#define STANDIN_LAYOUT 2u
#define MOST_GPUS 32
#define MOST_ALLOCATIONS 1024
#define MOST_FAULTS 64
#define MOST_HAPPENINGS 8192
#define NAME_BYTES 96

enum kind { COMPUTE, GRAPHICS, MPS };
/* How the driver lists a process: not at all, with its bytes, or without a figure. */
enum shown { HIDDEN, SHOWN, WITHOUT_BYTES };
enum mig { UNDIVIDABLE, DIVIDED, WHOLE };
/* What happens to an allocation: it is made, or there is no room for it; its owner lets go of it, or has
   died; its bytes are free. */
enum what { TAKEN, REFUSED, LET_GO, GIVEN_BACK };
enum refusal { NO_MEMORY = -1, NO_SLOT = -2, NO_PROCESS = -3, NO_GPU = -4 };

/* A GPU, or an instance of a divided one. */
struct gpu {
    char uuid[NAME_BYTES];
    char name[NAME_BYTES];
    uint64_t total, reserved;
    uint64_t highest;       /* the most that was ever used */
    uint64_t refused;       /* allocations for which there was no room */
    int32_t parent;         /* the divided GPU; -1: it is a GPU itself */
    uint32_t present, lost;
    uint32_t mig;           /* enum mig */
    uint32_t memory_group;  /* the GPU instance, whose memory its compute instances share */
    uint32_t temperature_c, power_mw;
};

struct allocation {
    uint64_t serial;        /* 0: the slot is free */
    uint64_t bytes;
    uint64_t started;       /* when the process was started, as /proc says it; 0: it needs no process */
    int64_t until_ns;       /* it is let go of and shows until then; 0: it is held */
    int32_t pid, gpu;
    uint32_t kind, shown;
};

/* What a function does instead of answering. */
struct fault {
    char function[NAME_BYTES]; /* "": the slot is free; "*": every function */
    int32_t gpu;               /* -1: for every GPU, and without one */
    int32_t error;             /* what it returns; 0: it answers after all */
    int64_t hang_ns;           /* how long it takes; -1: until it is healed */
    uint32_t times;            /* so often; 0: always */
};

struct happening {
    int64_t at_ns;          /* CLOCK_MONOTONIC */
    uint64_t serial;        /* of the allocation; 0: there was no room for it */
    uint64_t bytes;
    uint64_t used;          /* of the GPU by then, this included unless there was no room */
    int32_t pid, gpu;
    uint32_t what, shown;
};

struct state {
    uint32_t magic, layout;
    pthread_mutex_t lock;
    uint32_t loaded;        /* the driver is */
    uint32_t lists_dead;    /* what is on its way back is listed under its process until it is back */
    uint32_t epoch;         /* it was loaded so often: who was initialised before has to do it again */
    uint64_t serial;        /* the last one */
    uint32_t hanging;       /* calls that hang now */
    uint32_t heals;         /* so often was all made whole: what hung before goes on */
    uint64_t calls;         /* of all functions, by all processes */
    int64_t release_least_ns, release_most_ns;
    uint32_t gpu_count;
    struct gpu gpus[MOST_GPUS];
    struct allocation allocations[MOST_ALLOCATIONS];
    struct fault faults[MOST_FAULTS];
    uint64_t happened;      /* so many happenings; the last ones are kept */
    struct happening happenings[MOST_HAPPENINGS];
};

struct state *standin_open(const char *path);
void standin_lock(struct state *state);
void standin_unlock(struct state *state);
int64_t standin_now_ns(void);

/* With the lock held. */
void standin_reap(struct state *state);
uint64_t standin_sum(const struct state *state, int gpu);

#endif
