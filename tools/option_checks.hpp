// What a flag's value must be, told as all mistakes are: value, what is wrong with it, remedy. The flag's name comes
// before it by itself.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace spillway::tools {

CLI::Validator whole_number_within(long least, long most);
CLI::Validator number_within(double least, double most);
CLI::Validator names_file();  // not empty
CLI::Validator one_of(std::vector<std::string> words);

}  // namespace spillway::tools
