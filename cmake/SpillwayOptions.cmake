# Most of a file's compile time is its headers, so sources are compiled in batches: a build from nothing takes a third of the
# time. `fuzz` builds policy file by file, so that a file that leans on its neighbour's includes is found.
option(SPILLWAY_UNITY "Compile sources in batches (OFF: file by file, as clangd and clang-tidy want it)" ON)
set(CMAKE_UNITY_BUILD ${SPILLWAY_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 10)
set(shadow -Wshadow)
if(SPILLWAY_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(shadow -Wshadow=local)  # a local name does not hide a function of another file of its batch
endif()

# One interface target carries the language level, warnings and sanitizers; every target of ours links it.
add_library(spillway_options INTERFACE)
add_library(Spillway::options ALIAS spillway_options)
target_compile_features(spillway_options INTERFACE cxx_std_20)
target_include_directories(spillway_options INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_options(spillway_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;${shadow};-Wconversion;-Wsign-conversion;-Wnon-virtual-dtor;-Wold-style-cast;-Woverloaded-virtual;-Werror>)

# GCC 12 warns of overlap in its own std::string at -O3 (its bug 105329).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(spillway_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()

set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# The build tree has the installed tree's shape, so that `spillway` finds its library the same way in both.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/archive")
set(SPILLWAY_SIMULATED_DIRECTORY "${PROJECT_BINARY_DIR}/lib/spillway/simulated")

if(SPILLWAY_SANITIZE)
  target_compile_options(spillway_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${SPILLWAY_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize-recover=all>)
  target_link_options(spillway_options INTERFACE -fsanitize=${SPILLWAY_SANITIZE})
endif()

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

find_program(SPILLWAY_CCACHE ccache)
if(SPILLWAY_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${SPILLWAY_CCACHE}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${SPILLWAY_CCACHE}")  # dev and the sanitizers compile the same .cu files
endif()
