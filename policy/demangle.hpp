// Kernel names for people. The driver gives mangled names; rules and reports show what the source says.
#pragma once

#include <string>
#include <string_view>

namespace spillway::policy {

// "void scale<float>(float*, int)" for "_Z5scaleIfEvPT_i"; what is not mangled comes back as it is.
std::string demangled(std::string_view name);

// The name alone, without return type, template arguments and parameters: "scale", "at::native::reduce_kernel".
std::string bare_function_name(std::string_view demangled_name);

}  // namespace spillway::policy
