#include "kernels/operators.h"

#include "kernels/isa/isa_tables.h"
#include "runtime/base/check.h"

const operators_t operators_ref = {
#define OPERATOR_ROW(name, parameters) .name = name##_ref,
    OPERATOR_TABLE(OPERATOR_ROW)
#undef OPERATOR_ROW
};

const operators_t *operators_at(isa_t isa)
{
#if ISA_HAS_X86
    if (isa == ISA_AVX512)
        return &operators_avx512;
    if (isa == ISA_AVX2)
        return &operators_avx2;
#endif
    ASSERT(isa == ISA_SCALAR);
    return &operators_scalar;
}

const operators_t *operators(void)
{
    return operators_at(isa_level());
}
