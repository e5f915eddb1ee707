# cuda.cmake - compiles every .cu file below kernels/ and cache/ for Hopper (sm_90a) and consumer Blackwell (sm_120a).
# No GPU is needed for that, and nothing of CUDA is linked: the library lockstep_cuda opens the driver at run time.
# Without nvcc there is no lockstep_cuda and the engine is the same without its CUDA device; with LOCKSTEP_REQUIRE_CUDA
# in the environment that is an error. nvcc is $CUDACXX, or on the PATH, or of the packages nvidia-cuda-nvcc,
# nvidia-nvvm, nvidia-cuda-crt, nvidia-cuda-runtime and nvidia-cuda-cccl in a virtual environment.
set(LOCKSTEP_CUDA OFF)
if(LOCKSTEP_SANITIZE_THREAD OR LOCKSTEP_FUZZ OR NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    return() # nothing of CUDA is tested there
endif()
file(GLOB cuda_venvs $ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/cu13/bin
    ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cu13/bin)
find_program(LOCKSTEP_NVCC NAMES $ENV{CUDACXX} nvcc HINTS $ENV{CUDA_HOME}/bin ${cuda_venvs} /usr/local/cuda/bin)
find_program(LOCKSTEP_NVCC_HOST g++)
if(NOT LOCKSTEP_NVCC OR NOT LOCKSTEP_NVCC_HOST)
    if(DEFINED ENV{LOCKSTEP_REQUIRE_CUDA})
        message(FATAL_ERROR "CUDA: no nvcc or no g++, and LOCKSTEP_REQUIRE_CUDA is set")
    endif()
    message(STATUS "CUDA: no nvcc, so this build has no CUDA device: it computes on the CPU")
    return()
endif()
message(STATUS "CUDA: ${LOCKSTEP_NVCC}")
set(LOCKSTEP_CUDA ON)
get_filename_component(cuda_include ${LOCKSTEP_NVCC} REALPATH)
get_filename_component(cuda_include ${cuda_include} DIRECTORY)
set(LOCKSTEP_CUDA_INCLUDE ${cuda_include}/../include)

# Floating point is never contracted behind our back; C's _Noreturn has another name in C++.
set(LOCKSTEP_NVCC_FLAGS -ccbin ${LOCKSTEP_NVCC_HOST} -std=c++17 -O3 -fmad=false -lineinfo -Werror all-warnings
    "-D_Noreturn=[[noreturn]]" -I${CMAKE_SOURCE_DIR})

# lockstep_nvcc(OUTPUT SOURCE HOW...): one run of nvcc; what it says is OUTPUT.words.
function(lockstep_nvcc output source)
    add_custom_command(
        OUTPUT ${output} ${output}.words
        COMMAND sh -c "words=$1; shift; \"$@\" >\"$words\" 2>&1 || { cat \"$words\"; exit 1; }" nvcc ${output}.words
            ${LOCKSTEP_NVCC} ${LOCKSTEP_NVCC_FLAGS} ${ARGN} -MD -MF ${output}.d -o ${output} ${source}
        DEPENDS ${source} DEPFILE ${output}.d VERBATIM COMMENT "nvcc ${output}")
endfunction()

# lockstep_ptx(NAME SOURCE OUT_VARIABLE): the kernels of a .cu as C for the tests, a table `ptx_NAME`.
function(lockstep_ptx name source out)
    set(ptx ${CMAKE_BINARY_DIR}/cuda/${name}.ptx)
    lockstep_nvcc(${ptx} ${source} --ptx -arch=compute_90a)
    add_custom_command(
        OUTPUT ${ptx}.c
        COMMAND sh -c "${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/ptx2c.py ptx_${name} ${ptx} >${ptx}.c"
        DEPENDS ${ptx} ${CMAKE_SOURCE_DIR}/tools/ptx2c.py VERBATIM)
    # Its lines are the .cu's; registers that nobody reads are in PTX as they come.
    set_source_files_properties(${ptx}.c PROPERTIES COMPILE_OPTIONS "-w;-O1;-mfma")
    set(${out} ${ptx}.c PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/cuda)
file(GLOB_RECURSE LOCKSTEP_CUDA_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/*.cu ${CMAKE_SOURCE_DIR}/cache/*.cu)
set(cuda_images "")
set(cuda_declarations "")
set(cuda_table "")
foreach(source ${LOCKSTEP_CUDA_SOURCES})
    get_filename_component(name ${source} NAME_WE)
    set(image ${CMAKE_BINARY_DIR}/cuda/${name}.fatbin)
    lockstep_nvcc(${image} ${source} --fatbin -Xptxas=-v
        -gencode=arch=compute_90a,code=sm_90a -gencode=arch=compute_120a,code=sm_120a)
    list(APPEND cuda_images ${image})
    string(APPEND cuda_declarations "__asm__(\".section .rodata\\n.balign 16\\ncuda_image_${name}:\\n\"\n"
        "        \".incbin \\\"${image}\\\"\\n.previous\\n\");\nextern const char cuda_image_${name}[];\n")
    string(APPEND cuda_table "    cuda_image_${name},\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/cuda/images.c CONTENT
"/* images.c - made by cmake/cuda.cmake: the compiled kernels. */
#include \"kernels/cuda/operators.h\"

@cuda_declarations@
const void *const cuda_images[] = {
@cuda_table@    NULL,
};
" @ONLY)
set_source_files_properties(${CMAKE_BINARY_DIR}/cuda/images.c PROPERTIES OBJECT_DEPENDS "${cuda_images}")
lockstep_library(lockstep_cuda SOURCES
    ${CMAKE_SOURCE_DIR}/kernels/cuda/driver.c
    ${CMAKE_SOURCE_DIR}/kernels/cuda/operators.c
    ${CMAKE_BINARY_DIR}/cuda/images.c
    LINK lockstep_kernels dl)
target_include_directories(lockstep_cuda SYSTEM PUBLIC ${LOCKSTEP_CUDA_INCLUDE})
