// A driver without a device: enough of libcuda.so.1 to run fulgurite's programs, as late as CUDA allows. What is asked of a
// stream waits there until somebody waits for it; what a caller may not do ends the process with a message.
//
// Written from the documentation of the CUDA driver API, not from any driver.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unistd.h>
#include <vector>

typedef int CUresult;
typedef unsigned long long CUdeviceptr;
enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_FOUND = 500 };
static const size_t ALL = (size_t)1 << 30;

[[noreturn]] static void refuse(const char* function, const std::string& why) {
  fprintf(stderr, "%s: %s\n", function, why.c_str());
  fflush(stderr);
  _exit(97);
}
#define REQUIRE(test, why) \
  do { if (!(test)) refuse(__func__, why); } while (0)

typedef std::function<void()> Work;
struct Graph { std::vector<Work> work; };
struct Stream {
  bool alive = true, capturing = false;
  long launches = 0;
  std::deque<Work> queue;
  Graph captured;
};
struct Event { bool alive = true; std::shared_ptr<bool> done; };
struct Module { void* library; std::string file; };
typedef const char* (*Launcher)(const unsigned*, const unsigned*, const unsigned long long*);
struct Function { Launcher run; std::string arguments; };

static std::vector<Stream*>& streams() { static std::vector<Stream*> all; return all; }
static std::recursive_mutex lock;
static std::map<CUdeviceptr, size_t> memory;          // what is allocated
static std::map<size_t, std::vector<CUdeviceptr>> freed;
static std::map<char*, size_t> pinned;
static size_t used;
static bool started, retained;
static thread_local void* current;
static int context;                                    // its address is the handle
static uint64_t threshold;

struct Counters { long graphs, launches, products, staged; };
static Counters counters;
// for the test: what was done
struct Report {
  ~Report() {
    if (getenv("FULGURITE_REPORT"))
      fprintf(stderr, "driver: %ld launches, %ld graphs, %ld products, %ld pinned copies, %zu bytes held\n",
              counters.launches, counters.graphs, counters.products, counters.staged, used);
  }
};
static Report report;
extern "C" void fulgurite_driver_product() { counters.products++; }

static void check_context(const char* f) {
  if (current != &context) refuse(f, "no context is current on this thread");
}
static Stream* check_stream(const char* f, void* stream) {
  check_context(f);
  Stream* s = (Stream*)stream;
  if (!s || !s->alive) refuse(f, "no such stream");
  return s;
}
static bool is_pinned(const void* at, size_t bytes) {
  for (auto& p : pinned)
    if ((char*)at >= p.first && (char*)at + bytes <= p.first + p.second) return true;
  return false;
}
static void check_memory(const char* f, CUdeviceptr at, size_t bytes) {
  // pinned memory has one address for processor and device
  if (is_pinned((const void*)at, bytes)) return;
  auto next = memory.upper_bound(at);
  if (next != memory.begin()) {
    auto block = std::prev(next);
    if (at + bytes <= block->first + block->second) return;
  }
  char text[120];
  snprintf(text, sizeof text, "%zu bytes at %llx are not allocated", bytes, at);
  refuse(f, text);
}
static void ask(Stream* s, Work work) {
  if (s->capturing) s->captured.work.push_back(work); else s->queue.push_back(work);
}
static void drain(Stream* s) {
  while (!s->queue.empty()) {
    Work work = s->queue.front();
    s->queue.pop_front();
    work();
  }
}
// for libraries that work on streams
extern "C" void fulgurite_driver_ask(void* stream, const Work* work) {
  std::lock_guard<std::recursive_mutex> one(lock);
  ask(check_stream("a library's work", stream), *work);
}
extern "C" void fulgurite_driver_memory(const char* who, CUdeviceptr at, size_t bytes) {
  std::lock_guard<std::recursive_mutex> one(lock);
  check_memory(who, at, bytes);
}

#define API extern "C" CUresult
#define ENTER std::lock_guard<std::recursive_mutex> one(lock)
API cuInit(unsigned flags) { started = flags == 0; return started ? SUCCESS : INVALID_VALUE; }
API cuGetErrorString(CUresult e, const char** text) { *text = e == OUT_OF_MEMORY ? "out of memory" : "an error"; return SUCCESS; }
API cuGetErrorName(CUresult e, const char** text) { return cuGetErrorString(e, text); }
API cuDeviceGetCount(int* n) { REQUIRE(started, "cuInit comes first"); *n = 1; return SUCCESS; }
API cuDeviceGet(int* device, int ordinal) { REQUIRE(ordinal == 0, "no such device"); *device = 0; return SUCCESS; }
API cuDeviceGetName(char* name, int n, int) { snprintf(name, n, "no device"); return SUCCESS; }
API cuDeviceGetAttribute(int* value, int attribute, int) {
  REQUIRE(attribute == 75 || attribute == 76, "an attribute that is not the compute capability");
  *value = attribute == 75 ? 9 : 0;
  return SUCCESS;
}
API cuDevicePrimaryCtxRetain(void** out, int) { retained = true; *out = &context; return SUCCESS; }
API cuDevicePrimaryCtxRelease_v2(int) { REQUIRE(retained, "never retained"); retained = false; return SUCCESS; }
API cuCtxSetCurrent(void* c) { REQUIRE(c == &context && retained, "no such context"); current = c; return SUCCESS; }
API cuDeviceGetMemPool(void** pool, int) { *pool = &memory; return SUCCESS; }
API cuMemPoolSetAttribute(void* pool, int attribute, void* value) {
  REQUIRE(pool == &memory && attribute == 4, "an attribute that is not the release threshold");
  threshold = *(uint64_t*)value;
  return SUCCESS;
}
API cuMemGetInfo_v2(size_t* free, size_t* all) { *free = ALL - used; *all = ALL; return SUCCESS; }

API cuStreamCreate(void** out, unsigned flags) {
  ENTER; check_context(__func__);
  REQUIRE(flags == 1, "a stream that waits for the default stream");
  Stream* s = new Stream;
  streams().push_back(s);
  *out = s;
  return SUCCESS;
}
API cuStreamSynchronize(void* stream) {
  ENTER; Stream* s = check_stream(__func__, stream);
  REQUIRE(!s->capturing, "the stream records");
  drain(s);
  return SUCCESS;
}
API cuStreamDestroy_v2(void* stream) {
  ENTER; Stream* s = check_stream(__func__, stream);
  REQUIRE(!s->capturing, "the stream records");
  drain(s);
  s->alive = false;
  return SUCCESS;
}

API cuCtxSynchronize() {
  ENTER; check_context(__func__);
  for (Stream* s : streams()) {
    REQUIRE(!s->capturing, "a stream records");
    drain(s);
  }
  return SUCCESS;
}
// for a test: how many kernels were launched on a stream
extern "C" long fulgurite_driver_launches(void* stream) { return ((Stream*)stream)->launches; }

API cuMemAllocAsync(CUdeviceptr* out, size_t bytes, void* stream) {
  ENTER; Stream* s = check_stream(__func__, stream);
  REQUIRE(!s->capturing, "memory of a recorded program is the program's");
  if (bytes == 0) return INVALID_VALUE;
  if (used + bytes > ALL) return OUT_OF_MEMORY;
  auto& list = freed[bytes];
  if (list.empty()) {
    *out = (CUdeviceptr)aligned_alloc(256, (bytes + 255) / 256 * 256);
  } else {
    *out = list.back();
    list.pop_back();
  }
  used += bytes;
  memory[*out] = bytes;
  return SUCCESS;
}
API cuMemFreeAsync(CUdeviceptr at, void* stream) {
  ENTER; check_stream(__func__, stream);
  auto block = memory.find(at);
  REQUIRE(block != memory.end(), "memory that is not allocated");
  // later allocations are behind it in the stream, so they may have it at once
  used -= block->second;
  freed[block->second].push_back(at);
  memory.erase(block);
  return SUCCESS;
}
API cuMemHostAlloc(void** out, size_t bytes, unsigned flags) {
  ENTER; check_context(__func__);
  REQUIRE(flags == 0, "flags");
  *out = malloc(bytes);
  pinned[(char*)*out] = bytes;
  return SUCCESS;
}
API cuMemFreeHost(void* at) {
  ENTER; check_context(__func__);
  REQUIRE(pinned.erase((char*)at) == 1, "memory that is not pinned");
  free(at);
  return SUCCESS;
}
API cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, void* stream) {
  ENTER; Stream* s = check_stream(__func__, stream);
  check_memory(__func__, to, bytes);
  REQUIRE(!s->capturing, "host memory in a recorded program");
  if (is_pinned(from, bytes)) {
    counters.staged++;
    ask(s, [=] { memcpy((void*)to, from, bytes); });
    return SUCCESS;
  }
  // memory that is not pinned is read before this returns
  auto copy = std::make_shared<std::vector<char>>((const char*)from, (const char*)from + bytes);
  ask(s, [=] { memcpy((void*)to, copy->data(), bytes); });
  return SUCCESS;
}
API cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, void* stream) {
  ENTER; Stream* s = check_stream(__func__, stream);
  check_memory(__func__, from, bytes);
  REQUIRE(!s->capturing, "host memory in a recorded program");
  if (is_pinned(to, bytes)) counters.staged++;
  ask(s, [=] { memcpy(to, (void*)from, bytes); });
  return SUCCESS;
}
API cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, void* stream) {
  ENTER; Stream* s = check_stream(__func__, stream);
  check_memory(__func__, to, bytes);
  check_memory(__func__, from, bytes);
  REQUIRE(to + bytes <= from || from + bytes <= to, "what is copied overlaps");
  ask(s, [=] { memcpy((void*)to, (void*)from, bytes); });
  return SUCCESS;
}
API cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t bytes, void* stream) {
  ENTER; Stream* s = check_stream(__func__, stream);
  check_memory(__func__, at, bytes);
  ask(s, [=] { memset((void*)at, value, bytes); });
  return SUCCESS;
}

API cuEventCreate(void** out, unsigned flags) {
  ENTER; check_context(__func__);
  REQUIRE(flags == 2, "an event that takes the time");
  *out = new Event;
  return SUCCESS;
}
API cuEventRecord(void* event, void* stream) {
  ENTER; Stream* s = check_stream(__func__, stream);
  Event* e = (Event*)event;
  REQUIRE(e && e->alive, "no such event");
  auto done = std::make_shared<bool>(false);
  e->done = done;
  ask(s, [=] { *done = true; });
  return SUCCESS;
}
API cuEventSynchronize(void* event) {
  ENTER; check_context(__func__);
  Event* e = (Event*)event;
  REQUIRE(e && e->alive, "no such event");
  // the streams go on until the event
  for (Stream* s : streams())
    while (e->done && !*e->done && !s->queue.empty()) {
      Work work = s->queue.front();
      s->queue.pop_front();
      work();
    }
  return SUCCESS;
}
API cuEventDestroy_v2(void* event) {
  ENTER;
  Event* e = (Event*)event;
  REQUIRE(e && e->alive, "no such event");
  e->alive = false;
  return SUCCESS;
}

// An image is a shared library that the pretended compiler made.
API cuModuleLoadData(void** out, const void* image) {
  ENTER; check_context(__func__);
  size_t bytes;
  memcpy(&bytes, image, sizeof bytes);
  char name[] = "/tmp/fulgurite-image-XXXXXX";
  int file = mkstemp(name);
  REQUIRE(file >= 0 && write(file, (const char*)image + sizeof bytes, bytes) == (ssize_t)bytes, "no place for an image");
  close(file);
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  unlink(name);
  REQUIRE(library, dlerror());
  *out = new Module{library, name};
  return SUCCESS;
}
API cuModuleGetFunction(void** out, void* module, const char* name) {
  ENTER; check_context(__func__);
  Module* m = (Module*)module;
  Launcher run = (Launcher)dlsym(m->library, (std::string("launch_") + name).c_str());
  const char* arguments = (const char*)dlsym(m->library, (std::string("arguments_") + name).c_str());
  if (!run || !arguments) return NOT_FOUND;
  *out = new Function{run, arguments};
  return SUCCESS;
}
API cuModuleUnload(void* module) { ENTER; check_context(__func__); REQUIRE(module, "no module"); return SUCCESS; }
API cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void* stream, void** params, void** extra) {
  ENTER; Stream* s = check_stream(__func__, stream);
  Function* f = (Function*)function;
  REQUIRE(gx && gy && gz && gx <= 0x7fffffff && gy <= 65535 && gz <= 65535, "a grid of a size that is not allowed");
  REQUIRE(bx && by && bz && bx * by * bz <= 1024 && bz <= 64, "a block of a size that is not allowed");
  REQUIRE(shared == 0 && !extra, "dynamic shared memory, or packed arguments");
  std::vector<unsigned long long> args;
  // the driver reads as many as the kernel has
  REQUIRE(f->arguments.size() * 8 <= 4096, "more arguments than a kernel may have");
  for (char kind : f->arguments) {
    REQUIRE(kind == 'p' || kind == '8' || kind == '4', "an argument of a type that is not known");
    unsigned long long word = 0;
    memcpy(&word, params[args.size()], kind == '4' ? 4 : 8);
    if (kind == 'p') check_memory(__func__, word, 1);
    args.push_back(word);
  }
  std::vector<unsigned> sizes = {gx, gy, gz, bx, by, bz};
  counters.launches++;
  s->launches++;
  ask(s, [=] {
    const char* said = f->run(sizes.data(), sizes.data() + 3, args.data());
    if (said) refuse("a kernel", said);
  });
  return SUCCESS;
}

API cuStreamBeginCapture_v2(void* stream, int mode) {
  ENTER; Stream* s = check_stream(__func__, stream);
  REQUIRE(!s->capturing && (mode == 1), "a second recording, or not one of this thread");
  s->capturing = true;
  s->captured.work.clear();
  return SUCCESS;
}
API cuStreamEndCapture(void* stream, void** out) {
  ENTER; Stream* s = check_stream(__func__, stream);
  REQUIRE(s->capturing, "nothing is recorded");
  s->capturing = false;
  *out = new Graph(s->captured);
  return SUCCESS;
}
API cuGraphInstantiateWithFlags(void** out, void* graph, unsigned long long flags) {
  ENTER; check_context(__func__);
  REQUIRE(graph && flags == 0, "no graph, or flags");
  *out = new Graph(*(Graph*)graph);
  return SUCCESS;
}
API cuGraphDestroy(void* graph) { ENTER; delete (Graph*)graph; return SUCCESS; }
API cuGraphExecDestroy(void* graph) { ENTER; delete (Graph*)graph; return SUCCESS; }
API cuGraphLaunch(void* graph, void* stream) {
  ENTER; Stream* s = check_stream(__func__, stream);
  counters.graphs++;
  for (auto& work : ((Graph*)graph)->work) ask(s, work);
  return SUCCESS;
}
