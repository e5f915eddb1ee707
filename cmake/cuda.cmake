# Compiles every .cu file below kernels/ for Hopper (sm_90a) and consumer Blackwell (sm_120) when nvcc is there.
# No GPU is needed for that. Without nvcc the engine is the same, without its CUDA device.
find_program(LOCKSTEP_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/*.cu)

set(LOCKSTEP_CUDA_OBJECTS "")
if(LOCKSTEP_NVCC AND cuda_sources)
    foreach(source ${cuda_sources})
        file(RELATIVE_PATH relative ${CMAKE_SOURCE_DIR} ${source})
        set(object ${CMAKE_BINARY_DIR}/cuda/${relative}.o)
        get_filename_component(folder ${object} DIRECTORY)
        file(MAKE_DIRECTORY ${folder})
        add_custom_command(
            OUTPUT ${object}
            COMMAND ${LOCKSTEP_NVCC} -c -O3 -std=c++17 -I${CMAKE_SOURCE_DIR} --fmad=false -Werror all-warnings
                -Xcompiler -fPIC,-Wall,-Wextra,-ffp-contract=off
                -gencode arch=compute_90a,code=sm_90a -gencode arch=compute_120,code=sm_120
                -MD -MF ${object}.d -o ${object} ${source}
            DEPENDS ${source} DEPFILE ${object}.d
            COMMENT "nvcc ${relative} for sm_90a and sm_120" VERBATIM)
        list(APPEND LOCKSTEP_CUDA_OBJECTS ${object})
    endforeach()
    add_custom_target(lockstep_cuda ALL DEPENDS ${LOCKSTEP_CUDA_OBJECTS})
endif()
