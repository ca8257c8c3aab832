// Completions and the man page, as text made from what the command line accepts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spillway::tools {

struct FlagShape {
  std::string name;    // "--device-budget"
  std::string letter;  // "-o"; empty if it has none
  std::string value;   // "size or share"; empty if it takes none
  std::string sentence;
  std::vector<std::string> choices;  // of "one of: a, b, c"; the modes, of "FILE or mode"
  bool or_file = false;              // a file as well as one of the choices
  bool several = false;              // all that follows up to the next flag
};

enum class Completes : std::uint8_t { files, programs, shells };

struct CommandShape {
  std::string name;
  std::string sentence;
  std::string arguments;
  std::string example;
  Completes completes = Completes::files;
  std::vector<FlagShape> flags;
};

std::vector<CommandShape> command_shapes();

std::string bash_completion(const std::vector<CommandShape>& commands);
std::string zsh_completion(const std::vector<CommandShape>& commands);
std::string fish_completion(const std::vector<CommandShape>& commands);
std::string man_page(const std::vector<CommandShape>& commands);  // spillway.1

}  // namespace spillway::tools
