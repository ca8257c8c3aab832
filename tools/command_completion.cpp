// spillway completion: a shell's completions, and the man page, from the command table.
#include <CLI/CLI.hpp>

#include "tools/command.hpp"
#include "tools/completion.hpp"
#include "tools/option_checks.hpp"

namespace spillway::tools {
namespace {

class CompletionCommand : public Command {
 public:
  void add_options(CLI::App& app) override {
    app.add_option("shell", shell_, "bash, zsh or fish; man for the man page")
        ->required()
        ->check(one_of({"bash", "zsh", "fish", "man"}));
  }

  int run() override {
    const std::vector<CommandShape> commands = command_shapes();
    if (shell_ == "bash") print(bash_completion(commands));
    if (shell_ == "zsh") print(zsh_completion(commands));
    if (shell_ == "fish") print(fish_completion(commands));
    if (shell_ == "man") print(man_page(commands));
    return kSuccess;
  }

 private:
  std::string shell_;
};

}  // namespace

std::unique_ptr<Command> make_completion_command() { return std::make_unique<CompletionCommand>(); }

}  // namespace spillway::tools
