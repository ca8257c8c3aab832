# The page of `spillway view`: built from tools/viewer by npm and esbuild, in the build tree, and embedded in spillway_tools.
set(SPILLWAY_VIEWER AUTO CACHE STRING "Build the trace viewer (needs Node.js 18 with npm, and npm's registry): ON, OFF or AUTO")
find_program(SPILLWAY_NODE node)
find_program(SPILLWAY_NPM npm)
set(SPILLWAY_HAVE_VIEWER OFF)
if(SPILLWAY_VIEWER STREQUAL "OFF")
elseif(SPILLWAY_NODE AND SPILLWAY_NPM)
  set(SPILLWAY_HAVE_VIEWER ON)
elseif(SPILLWAY_VIEWER STREQUAL "ON")
  message(FATAL_ERROR "SPILLWAY_VIEWER is ON, but node or npm was not found. Install Debian's nodejs and npm, or build with -DSPILLWAY_VIEWER=OFF (everything but `spillway view`).")
else()
  message(WARNING "No Node.js with npm found: building without `spillway view`. Install Debian's nodejs and npm, and configure again.")
endif()

if(SPILLWAY_HAVE_VIEWER)
  set(viewer_source "${PROJECT_SOURCE_DIR}/tools/viewer")
  set(viewer_build "${PROJECT_BINARY_DIR}/viewer")
  set(SPILLWAY_VIEWER_PAGE "${viewer_build}/page.html")
  file(GLOB viewer_files CONFIGURE_DEPENDS "${viewer_source}/src/*")
  # Built in a copy: node_modules stays out of the source tree. The packages are installed anew only when the lock changes.
  add_custom_command(OUTPUT "${viewer_build}/node_modules/.package-lock.json"
    COMMAND ${CMAKE_COMMAND} -E copy "${viewer_source}/package.json" "${viewer_source}/package-lock.json" "${viewer_build}"
    COMMAND ${SPILLWAY_NPM} ci --prefix "${viewer_build}" --ignore-scripts --no-audit --no-fund --loglevel=error
    COMMAND ${CMAKE_COMMAND} -E touch "${viewer_build}/node_modules/.package-lock.json"
    DEPENDS "${viewer_source}/package.json" "${viewer_source}/package-lock.json"
    COMMENT "Installing the viewer's packages (without npm's registry: -DSPILLWAY_VIEWER=OFF)" VERBATIM)
  add_custom_command(OUTPUT "${SPILLWAY_VIEWER_PAGE}"
    COMMAND ${CMAKE_COMMAND} -E rm -rf "${viewer_build}/src"
    COMMAND ${CMAKE_COMMAND} -E copy_directory "${viewer_source}/src" "${viewer_build}/src"
    COMMAND ${CMAKE_COMMAND} -E copy "${viewer_source}/tsconfig.json" "${viewer_source}/build.mjs" "${viewer_build}"
    COMMAND ${CMAKE_COMMAND} -E chdir "${viewer_build}" ${SPILLWAY_NPM} run --silent build
    DEPENDS "${viewer_build}/node_modules/.package-lock.json" ${viewer_files}
            "${viewer_source}/tsconfig.json" "${viewer_source}/build.mjs"
    COMMENT "Building the viewer's page" VERBATIM)
  configure_file("${PROJECT_SOURCE_DIR}/tools/view/page_data.S.in" "${viewer_build}/page_data.S" @ONLY)
  set_source_files_properties("${viewer_build}/page_data.S" PROPERTIES OBJECT_DEPENDS "${SPILLWAY_VIEWER_PAGE}")
  target_sources(spillway_tools PRIVATE "${viewer_build}/page_data.S")
  set_source_files_properties(view/page.cpp PROPERTIES COMPILE_DEFINITIONS SPILLWAY_VIEWER SKIP_UNITY_BUILD_INCLUSION ON)
endif()
