/* A libnvidia-ml.so.1 for tests. Its state is a text file (NVML_STUB_STATE), read again on each call. Lines:
 *   init N               what nvmlInit returns
 *   hang                 every call after init sleeps for ever
 *   gpu UUID TOTAL USED  a GPU, memory in MiB
 *   process INDEX PID MIB
 *   xid INDEX NUMBER ID  reported once per ID
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct gpu { char uuid[96]; unsigned long long total, used; };
struct process { int gpu; unsigned pid; unsigned long long mib; };
struct xid { int gpu, number, id; };

static struct gpu gpus[16];
static struct process processes[64];
static struct xid xids[64];
static int gpu_count, process_count, xid_count, init_code, hang, last_xid;

static void load(void) {
    char line[256];
    FILE *file = fopen(getenv("NVML_STUB_STATE"), "r");
    gpu_count = process_count = xid_count = init_code = hang = 0;
    if (!file) return;
    while (fgets(line, sizeof line, file)) {
        struct gpu g; struct process p; struct xid x; int code;
        if (sscanf(line, "init %d", &code) == 1) init_code = code;
        else if (strncmp(line, "hang", 4) == 0) hang = 1;
        else if (sscanf(line, "gpu %95s %llu %llu", g.uuid, &g.total, &g.used) == 3) gpus[gpu_count++] = g;
        else if (sscanf(line, "process %d %u %llu", &p.gpu, &p.pid, &p.mib) == 3) processes[process_count++] = p;
        else if (sscanf(line, "xid %d %d %d", &x.gpu, &x.number, &x.id) == 3) xids[xid_count++] = x;
    }
    fclose(file);
    while (hang) sleep(3600);
}

/* A handle is the index plus one, so that the first GPU is no null pointer. */
static int at(void *device) { return (int)(long)device - 1; }

int nvmlInitWithFlags(unsigned flags) { (void)flags; load(); return init_code; }
int nvmlInit_v2(void) { load(); return init_code; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { static char text[32]; snprintf(text, sizeof text, "stub error %d", code); return text; }
int nvmlSystemGetDriverVersion(char *text, unsigned length) { snprintf(text, length, "999.1"); return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { load(); *count = gpu_count; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = (void *)(long)(index + 1); return 0; }
int nvmlDeviceGetUUID(void *device, char *text, unsigned length) { load(); snprintf(text, length, "%s", gpus[at(device)].uuid); return 0; }
int nvmlDeviceGetName(void *device, char *text, unsigned length) { (void)device; snprintf(text, length, "Stub GPU"); return 0; }
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory) {
    load();
    memory[0] = gpus[at(device)].total << 20;
    memory[2] = gpus[at(device)].used << 20;
    memory[1] = memory[0] - memory[2];
    return 0;
}
int nvmlDeviceGetUtilizationRates(void *device, unsigned *rates) { (void)device; rates[0] = 42; rates[1] = 10; return 0; }
int nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *value) { (void)device; (void)sensor; *value = 55; return 0; }
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) { (void)device; *milliwatts = 123000; return 0; }
struct process_info { unsigned pid; unsigned long long used; unsigned gi, ci; };
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process_info *out) {
    unsigned found = 0, room = *count;
    load();
    for (int i = 0; i < process_count; i++) {
        if (processes[i].gpu != at(device)) continue;
        if (out && found < room) out[found] = (struct process_info){processes[i].pid, processes[i].mib << 20, 0, 0};
        found++;
    }
    *count = found;
    return found > room || (found && !out) ? 7 : 0; /* INSUFFICIENT_SIZE */
}
int nvmlEventSetCreate(void **set) { *set = (void *)1; return 0; }
int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set) { (void)device; (void)types; (void)set; return 0; }
struct event { void *device; unsigned long long type, data; unsigned gi, ci; };
int nvmlEventSetWait_v2(void *set, struct event *event, unsigned milliseconds) {
    (void)set; (void)milliseconds;
    load();
    for (int i = 0; i < xid_count; i++) {
        if (xids[i].id <= last_xid) continue;
        last_xid = xids[i].id;
        *event = (struct event){(void *)(long)(xids[i].gpu + 1), 8, xids[i].number, 0, 0};
        return 0;
    }
    return 10; /* TIMEOUT */
}
