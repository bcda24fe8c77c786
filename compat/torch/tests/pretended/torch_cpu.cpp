// A libtorch_cpu without PyTorch: the stable functions that kernels of operators call, and a dispatcher that is a map.
//
// Written from the declarations of the stable C interface, not from PyTorch's sources.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#define API extern "C" int32_t
typedef void (*Kernel)(uint64_t*, uint64_t, uint64_t);
typedef void (*Deleter)(void*, void*);
struct Tensor {
  int32_t kind, number, dtype;
  void* data;
  std::vector<int64_t> sizes;
  Deleter deleter;
  void* context;
};
struct Library { std::string key; };

static std::map<std::string, Kernel> kernels;
static std::string said;
static long alive;

static Tensor* made(int32_t kind, int32_t number, int32_t dtype, void* data, int64_t rank, const int64_t* sizes,
                    Deleter deleter, void* context) {
  alive++;
  return new Tensor{kind, number, dtype, data, std::vector<int64_t>(sizes, sizes + rank), deleter, context};
}
static void freed(void* data, void*) { free(data); }
[[noreturn]] static void unused(const char* name) {
  fprintf(stderr, "%s is not pretended\n", name);
  _Exit(97);
}

API aoti_torch_library_init_impl(const char*, const char* key, const char*, uint32_t, void** out) {
  *out = new Library{key};
  return 0;
}
API torch_library_impl(void* library, const char* name, Kernel kernel, uint64_t) {
  kernels[((Library*)library)->key + "/" + name] = kernel;
  return 0;
}
API torch_call_dispatcher(const char*, const char*, uint64_t*, uint64_t) { unused(__func__); }
API aoti_torch_get_data_ptr(void* t, void** out) { *out = ((Tensor*)t)->data; return 0; }
API aoti_torch_get_dim(void* t, int64_t* out) { *out = (int64_t)((Tensor*)t)->sizes.size(); return 0; }
API aoti_torch_get_sizes(void* t, const int64_t** out) { *out = ((Tensor*)t)->sizes.data(); return 0; }
API aoti_torch_get_dtype(void* t, int32_t* out) { *out = ((Tensor*)t)->dtype; return 0; }
API aoti_torch_get_device_type(void* t, int32_t* out) { *out = ((Tensor*)t)->kind; return 0; }
API aoti_torch_get_device_index(void* t, int32_t* out) { *out = ((Tensor*)t)->number; return 0; }
API aoti_torch_is_contiguous(void*, bool* out) { *out = true; return 0; }
API aoti_torch_empty_strided(int64_t rank, const int64_t* sizes, const int64_t*, int32_t dtype, int32_t kind, int32_t,
                             void** out) {
  if (kind != 0) unused(__func__);
  int64_t count = 8;
  for (int64_t i = 0; i < rank; i++) count *= sizes[i];
  *out = made(0, -1, dtype, malloc(count + 8), rank, sizes, freed, nullptr);
  return 0;
}
API aoti_torch_delete_tensor_object(void* t) {
  Tensor* tensor = (Tensor*)t;
  if (tensor->deleter) tensor->deleter(tensor->data, tensor->context);
  delete tensor;
  alive--;
  return 0;
}
extern "C" void aoti_torch_check(bool holds, const char*, const char*, uint32_t, const char* text) {
  if (!holds) throw std::runtime_error(text);
}
API aoti_torch_memory_format_contiguous_format() { return 0; }
API torch_list_size(void*, size_t*) { unused(__func__); }
API torch_list_get_item(void*, size_t, uint64_t*) { unused(__func__); }
API torch_list_push_back(void*, uint64_t) { unused(__func__); }
API torch_new_list_reserve_size(size_t, void**) { unused(__func__); }
API torch_delete_list(void*) { unused(__func__); }
API torch_string_c_str(void*, const char**) { unused(__func__); }
API torch_string_length(void*, size_t*) { unused(__func__); }
API torch_delete_string(void*) { unused(__func__); }
API torch_delete_stable_ivalue(uint64_t*) { unused(__func__); }
extern "C" const char* torch_exception_get_what_without_backtrace() { return "an error of PyTorch"; }
API torch_get_num_threads(uint32_t* out) { *out = 1; return 0; }
API torch_from_blob(void* data, int64_t rank, const int64_t* sizes, const int64_t*, int64_t, int32_t dtype, int32_t kind,
                    int32_t number, void** out, int32_t, const uint8_t*, int64_t, Deleter deleter, void* context) {
  *out = made(kind, number, dtype, data, rank, sizes, deleter, context);
  return 0;
}

// for the test
extern "C" void* pretended_tensor(int32_t kind, int32_t dtype, void* data, int64_t rank, const int64_t* sizes) {
  return made(kind, kind ? 0 : -1, dtype, data, rank, sizes, nullptr, nullptr);
}
extern "C" long pretended_alive() { return alive; }
extern "C" const char* pretended_call(const char* key, const char* name, uint64_t* stack, uint64_t arguments,
                                      uint64_t results) {
  auto kernel = kernels.find(std::string(key) + "/" + name);
  if (kernel == kernels.end()) return "no such kernel";
  try {
    kernel->second(stack, arguments, results);
    return nullptr;
  } catch (const std::exception& e) {
    said = e.what();
    return said.c_str();
  }
}
