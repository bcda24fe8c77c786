// A libtorch_cuda without PyTorch, on the pretended driver: two streams, an allocator that keeps each block with its
// stream, and the guard of the current device.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>

typedef unsigned long long CUdeviceptr;
extern "C" {
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void**, int);
int cuCtxSetCurrent(void*);
int cuCtxSynchronize();
int cuStreamCreate(void**, unsigned);
int cuMemAllocAsync(CUdeviceptr*, size_t, void*);
int cuMemFreeAsync(CUdeviceptr, void*);
}
#define API extern "C" int32_t
static void* context;
static void* streams[2];
static int which;
static long guards;
static std::map<void*, void*> owners;

static void enter() {
  if (!context) {
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 0);
  }
  cuCtxSetCurrent(context);
  for (void*& stream : streams)
    if (!stream) cuStreamCreate(&stream, 1);
}
API aoti_torch_get_current_cuda_stream(int32_t device, void** out) {
  if (device != 0 || guards == 0) return 1;
  *out = streams[which];
  return 0;
}
API aoti_torch_create_cuda_guard(int32_t device, void** out) {
  if (device != 0) return 1;
  enter();
  guards++;
  *out = &guards;
  return 0;
}
API aoti_torch_delete_cuda_guard(void*) { guards--; return 0; }
API aoti_torch_cuda_caching_allocator_raw_alloc(uint64_t bytes, void** out) {
  enter();
  CUdeviceptr at = 0;
  if (bytes == 0 || cuMemAllocAsync(&at, bytes, streams[which])) return 1;
  *out = (void*)at;
  owners[*out] = streams[which];
  return 0;
}
API aoti_torch_cuda_caching_allocator_raw_delete(void* at) {
  enter();
  auto owner = owners.find(at);
  if (owner == owners.end()) {
    fprintf(stderr, "memory that PyTorch does not have\n");
    _Exit(97);
  }
  cuMemFreeAsync((CUdeviceptr)at, owner->second);
  owners.erase(owner);
  return 0;
}

// for the test
extern "C" void pretended_stream(int n) { which = n; }
extern "C" void* pretended_stream_handle(int n) { enter(); return streams[n]; }
extern "C" void pretended_wait() { enter(); cuCtxSynchronize(); }
extern "C" long pretended_blocks() { return (long)owners.size(); }
extern "C" long pretended_guards() { return guards; }
