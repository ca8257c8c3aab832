# The page of `spillway view`: built from tools/viewer by npm and esbuild, in the build tree, and embedded in a target.
set(SPILLWAY_VIEWER AUTO CACHE STRING "Build the trace viewer (needs Node.js 18 with npm, and npm's registry): ON, OFF or AUTO")
set(SPILLWAY_HAVE_VIEWER OFF)
if(NOT SPILLWAY_VIEWER STREQUAL "OFF")
  find_program(SPILLWAY_NODE node)
  find_program(SPILLWAY_NPM npm)
  if(SPILLWAY_NODE AND SPILLWAY_NPM)
    set(SPILLWAY_HAVE_VIEWER ON)
  elseif(SPILLWAY_VIEWER STREQUAL "ON")
    message(FATAL_ERROR "SPILLWAY_VIEWER is ON, but node or npm was not found. Install Debian's nodejs and npm, or build with -DSPILLWAY_VIEWER=OFF (everything but `spillway view`).")
  else()
    message(WARNING "No Node.js with npm found: building without `spillway view`. Install Debian's nodejs and npm, and configure again.")
  endif()
endif()

function(spillway_embed_viewer target)
  if(NOT SPILLWAY_HAVE_VIEWER)
    return()
  endif()
  set(source "${PROJECT_SOURCE_DIR}/tools/viewer")
  set(build "${PROJECT_BINARY_DIR}/viewer")
  set(SPILLWAY_VIEWER_PAGE "${build}/page.html")
  file(GLOB files CONFIGURE_DEPENDS "${source}/src/*")
  add_custom_command(OUTPUT "${SPILLWAY_VIEWER_PAGE}"
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${source} -DBUILD=${build} -DNPM=${SPILLWAY_NPM} -DMODE=${SPILLWAY_VIEWER}
            -P "${PROJECT_SOURCE_DIR}/cmake/BuildViewerPage.cmake"
    DEPENDS ${files} "${source}/package.json" "${source}/package-lock.json" "${source}/tsconfig.json" "${source}/build.mjs"
            "${PROJECT_SOURCE_DIR}/cmake/BuildViewerPage.cmake"
    COMMENT "Building the viewer's page" VERBATIM)
  configure_file("${PROJECT_SOURCE_DIR}/tools/view/page_data.S.in" "${build}/page_data.S" @ONLY)
  set_source_files_properties("${build}/page_data.S" PROPERTIES OBJECT_DEPENDS "${SPILLWAY_VIEWER_PAGE}")
  target_sources(${target} PRIVATE "${build}/page_data.S")
  set_source_files_properties(view/page.cpp PROPERTIES COMPILE_DEFINITIONS SPILLWAY_VIEWER SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
