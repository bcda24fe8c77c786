// A compiler without an assembler: enough of libnvrtc.so to give the pretended driver images that it runs. Kernels are
// compiled as C++ over the header of the device `host`; FULGURITE_HOST_H names it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <unistd.h>

struct Program { std::string text, image, log; };
#define API extern "C" int

API nvrtcVersion(int* major, int* minor) { *major = 0; *minor = 1; return 0; }
extern "C" const char* nvrtcGetErrorString(int) { return "an error"; }
API nvrtcGetNumSupportedArchs(int* n) { *n = 1; return 0; }
API nvrtcGetSupportedArchs(int* all) { all[0] = 90; return 0; }
API nvrtcCreateProgram(void** out, const char* text, const char*, int headers, const char* const*, const char* const*) {
  if (headers) return 3;
  *out = new Program{text, "", ""};
  return 0;
}
API nvrtcDestroyProgram(void** program) { delete (Program*)*program; *program = nullptr; return 0; }
API nvrtcCompileProgram(void* program, int n, const char* const* options) {
  Program* p = (Program*)program;
  bool architecture = false;
  for (int i = 0; i < n; i++) architecture |= strcmp(options[i], "--gpu-architecture=sm_90") == 0;
  if (!architecture) { p->log = "no architecture that is known"; return 5; }
  char folder[] = "/tmp/fulgurite-nvrtc-XXXXXX";
  if (!mkdtemp(folder)) return 1;
  std::string base(folder);
  std::ofstream text(base + "/kernels.cpp");
  text << "#include \"" << getenv("FULGURITE_HOST_H") << "\"\n#undef FG\n" << p->text;
  std::regex kernel("extern \"C\" __global__ void (?:__launch_bounds__\\(\\d+\\) )?(\\w+)\\(([^)]*)\\)");
  for (std::sregex_iterator at(p->text.begin(), p->text.end(), kernel), end; at != end; ++at) {
    std::string list = (*at)[2];
    // a letter for each argument: an address, or a number of so many bytes
    std::string kinds, one;
    std::stringstream arguments(list);
    while (std::getline(arguments, one, ',')) {
      auto has = [&](const char* word) { return one.find(word) != std::string::npos; };
      kinds += has("*") ? 'p' : has("long long") || has("double") ? '8' : has("int") || has("float") ? '4' : '?';
    }
    text << "\nFG_LAUNCHER(" << (*at)[1] << ")\nextern \"C\" const char arguments_" << (*at)[1]
         << "[];\nconst char arguments_" << (*at)[1] << "[] = \"" << kinds << "\";\n";
  }
  text.close();
  const char* compiler = getenv("CXX") ? getenv("CXX") : "c++";
  std::string line = std::string(compiler) +
                     " -std=c++17 -O1 -shared -fPIC -ffp-contract=off -w -D__forceinline__=inline " + base +
                     "/kernels.cpp -o " + base + "/kernels.so > " + base + "/log 2>&1";
  int failed = system(line.c_str());
  auto read = [&](const char* name) {
    std::ifstream file(base + name, std::ios::binary);
    std::stringstream all;
    all << file.rdbuf();
    return all.str();
  };
  p->log = read("/log");
  if (!failed) {
    std::string library = read("/kernels.so");
    size_t bytes = library.size();
    p->image = std::string((const char*)&bytes, sizeof bytes) + library;
  }
  if (system(("rm -r " + base).c_str())) p->log += " and its folder stays";
  return failed ? 6 : 0;
}
API nvrtcGetProgramLogSize(void* p, size_t* n) { *n = ((Program*)p)->log.size() + 1; return 0; }
API nvrtcGetProgramLog(void* p, char* to) { strcpy(to, ((Program*)p)->log.c_str()); return 0; }
API nvrtcGetCUBINSize(void* p, size_t* n) { *n = ((Program*)p)->image.size(); return 0; }
API nvrtcGetCUBIN(void* p, char* to) { memcpy(to, ((Program*)p)->image.data(), ((Program*)p)->image.size()); return 0; }
