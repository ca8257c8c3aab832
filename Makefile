# The two commands a newcomer needs. Both install what is missing (Debian packages), build, and run.
#   make demo    both examples beyond their device's memory, on the GPU if there is one, else on the simulated device
#   make test    builds everything and runs the tests
# The rest is for contributors; CMakePresets.json has all configurations.
SHELL := /bin/bash
JOBS ?= $(shell nproc)
CMAKE_ARGUMENTS ?=

.PHONY: demo test sanitize no-cuda fuzz check-format clean

demo:
	tools/development/install_dependencies.sh build view
	cmake --preset release -DSPILLWAY_BUILD_TESTS=OFF -DSPILLWAY_BUILD_BENCHMARKS=OFF $(CMAKE_ARGUMENTS)
	cmake --build --preset release -j $(JOBS)
	tools/demo.sh build/release

test:
	tools/development/install_dependencies.sh build test view
	cmake --preset dev $(CMAKE_ARGUMENTS)
	cmake --build --preset dev -j $(JOBS)
	ctest --preset dev

# The suite under AddressSanitizer with UndefinedBehaviorSanitizer (policy and tools as they build where there is no CUDA
# toolkit, then the rest), and what has threads under ThreadSanitizer.
sanitize:
	tools/development/install_dependencies.sh build test view
	for preset in no-cuda asan-ubsan tsan; do \
	  cmake --preset $$preset $(CMAKE_ARGUMENTS) && cmake --build --preset $$preset -j $(JOBS) && ctest --preset $$preset || exit 1; \
	done

# Policy and tools alone, as they build where there is no CUDA toolkit, under the same sanitizers.
no-cuda:
	tools/development/install_dependencies.sh build test view
	cmake --preset no-cuda $(CMAKE_ARGUMENTS)
	cmake --build --preset no-cuda -j $(JOBS)
	ctest --preset no-cuda

# Each fuzzer for SECONDS (60).
fuzz:
	tools/development/install_dependencies.sh build test view
	tools/development/fuzz.sh $(or $(SECONDS_EACH),60)

check-format:
	git ls-files '*.cpp' '*.hpp' '*.cu' | xargs clang-format --dry-run --Werror

clean:
	rm -rf build
