"""ptx2c.py NAME FILE.ptx - the kernels of a PTX file as C over tests/cuda/ptx.h, to stdout.

One statement an instruction; registers hold raw bits, as on the device. What is not known here is
an error, and so is what has no exact bits: approximations, flushed subnormals, and sums or products
of floats that ptxas may contract. `.loc` becomes `#line`: a debugger and ASan name the .cu's lines.
The file defines `emulator_kernel_t NAME[]`, which ends with an empty one.
"""
import re
import sys

BITS = {"8": "uint8_t", "16": "uint16_t", "32": "uint32_t", "64": "uint64_t"}
OPERATORS = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
           "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
SPECIAL = {"tid": "emulator_thread()", "ntid": "emulator_block_size()",
           "ctaid": "emulator_block()", "nctaid": "emulator_grid_size()"}
DECLARED = r"\.align\s+(\d+)\s+\.[bfus](\d+)\s+([\w$]+)\[(\d+)\]\s*;"
INEXACT = {"ftz", "approx", "full", "relu", "satfinite", "sat"}


class Refused(Exception):
    """An instruction that has no translation."""


def c_type(t):
    if t in ("f32", "f64", "pred"):
        return {"f32": "float", "f64": "double", "pred": "bool"}[t]
    if not re.fullmatch(r"[busf](8|16|32|64)", t):
        raise Refused(f"type {t}")
    return ("int" if t[0] == "s" else "uint") + t[1:] + "_t"


def split(text):
    """Operands: commas outside braces and brackets."""
    return [a.strip() for a in re.split(r",(?![^{\[]*[}\]])", text)] if text.strip() else []


class Kernel:
    def __init__(self, name, symbols):
        self.name = name
        self.registers = {}  # family or name -> C type
        self.parameters = {}  # name -> (offset, bytes)
        self.shared = {}  # symbol -> offset in the block's shared memory
        self.local = {}  # symbol -> bytes
        self.symbols = symbols  # of the module: constants
        self.site = 0

    # -- operands ---------------------------------------------------------------------------

    def name_of(self, a):
        name = a.strip().lstrip("%")
        if re.match(r"[a-zA-Z]*", name)[0] not in self.registers:
            raise Refused(f"register {a}")
        return "r_" + name

    def value(self, a, t):
        """Operand `a`, read as type `t`."""
        a = a.strip()
        if match := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", a):
            return f"ptx_float(0x{match[1]}u)"
        if match := re.fullmatch(r"0[dD]([0-9a-fA-F]{16})", a):
            return f"ptx_double(0x{match[1]}ull)"
        if re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+", a):
            if t == "pred":
                return str(int(int(a, 0) != 0))
            return f"({c_type(t)}){int(a, 0) & (1 << 64) - 1}ull"
        if match := re.fullmatch(r"%(tid|ntid|ctaid|nctaid)\.([xyz])", a):
            return f"({c_type(t)}){SPECIAL[match[1]]}.{match[2]}"
        if a == "%laneid":
            return "emulator_lane()"
        if not a.startswith("%"):
            return f"({c_type(t)})({self.symbol(a)})"
        if t in ("f32", "f64"):
            return f"ptx_{c_type(t)}({self.name_of(a)})"
        return self.name_of(a) if t == "pred" else f"({c_type(t)}){self.name_of(a)}"

    def symbol(self, a):
        if a in self.shared:
            return f"{self.shared[a]}u"
        if a in self.parameters:
            return f"(uintptr_t)(parameters + {self.parameters[a][0]})"
        if a in self.local or a in self.symbols:
            return f"(uintptr_t)m_{a.replace('$', '_')}"
        raise Refused(f"symbol {a}")

    def store(self, d, t, value):
        d = d.strip()
        if d == "_":
            return f"(void)({value});"
        if t in ("f32", "f64"):
            return f"{self.name_of(d)} = ptx_bits{t[1:]}({value});"
        if t == "pred":
            return f"{self.name_of(d)} = {value};"
        family = re.match(r"[a-zA-Z]+", d.lstrip("%"))[0]
        return f"{self.name_of(d)} = ({self.registers[family]})({c_type(t)})({value});"

    def address(self, a):
        match = re.fullmatch(r"\[\s*([%\w$]+)\s*(?:\+\s*(-?\d+))?\s*\]", a)
        if not match:
            raise Refused(f"address {a}")
        base = match[1]
        base = self.name_of(base) if base[0] == "%" else self.symbol(base)
        return f"(uint64_t)({base}) + (uint64_t){int(match[2] or 0)}"

    # -- instructions -----------------------------------------------------------------------

    def memory(self, o, op, a, t):
        spaces = ("param", "global", "shared", "local", "const")
        space = next((s for s in spaces if s in op), "generic")
        count = 4 if "v4" in op else 2 if "v2" in op else 1
        width = int(t[1:]) // 8
        data, at = (a[0], a[1]) if o == "ld" else (a[1], a[0])
        names = split(data.strip("{}")) if count > 1 else [data]
        if space == "param" and "%" not in at:
            match = re.fullmatch(r"\[\s*([\w$]+)\s*(?:\+\s*(\d+))?\s*\]", at)
            place = self.parameters[match[1]][0] + int(match[2] or 0)
            return " ".join(self.store(n, t, f"ptx_load_{t}(parameters + {place + i * width})")
                            for i, n in enumerate(names))
        space = "local" if space == "param" else space
        waits = {"volatile", "acquire", "relaxed", "release"} & set(op)
        wait = "emulator_pause(); " if waits else ""
        find = (f"{wait}unsigned char *at_ = emulator_{space}({self.address(at)}, {width * count}, "
                f"{int(o == 'st')}); ")
        if o == "st":
            return "{ " + find + " ".join(f"ptx_store_{t}(at_ + {i * width}, {self.value(n, t)});"
                                          for i, n in enumerate(names)) + " }"
        took = "".join(f"{c_type(t)} v{i}_ = ptx_load_{t}(at_ + {i * width}); "
                       for i in range(count))
        kept = " ".join(self.store(n, t, f"v{i}_") for i, n in enumerate(names))
        return "{ " + find + took + kept + " }"

    def multiply(self, o, op, a, t):
        x, y, wide = self.value(a[1], t), self.value(a[2], t), f"{t[0]}{int(t[1:]) * 2}"
        to = t
        if "wide" in op:
            to, result = wide, f"({c_type(wide)}){x} * ({c_type(wide)}){y}"
        elif "lo" in op:
            result = f"(uint64_t){x} * (uint64_t){y}"
        elif "hi" in op:
            double = c_type(wide) if t[1:] != "64" else \
                "__int128" if t[0] == "s" else "unsigned __int128"
            result = f"({double}){x} * ({double}){y} >> {t[1:]}"
        else:
            raise Refused("product of integers")
        if o == "mad":
            to = "u" + to[1:]
            result = f"({c_type(to)})({result}) + {self.value(a[3], to)}"
        return self.store(a[0], to, result)

    def convert(self, op, a):
        to, source = op[-2], op[-1]
        x = self.value(a[1], "b16" if source in ("f16", "bf16") else source)
        if source[0] in "us" and to[0] in "us":
            return self.store(a[0], to, x)
        if source == "f16" and to == "f32":
            return self.store(a[0], to, f"ptx_half({x})")
        if source[0] in "us" and to in ("f32", "f64") and "rn" in op:
            return self.store(a[0], to, f"({c_type(to)}){x}")
        if (source, to) == ("f32", "f64") or ((source, to) == ("f64", "f32") and "rn" in op):
            return self.store(a[0], to, f"({c_type(to)}){x}")
        if source == "f32" and to in ("s32", "u32") and "rzi" in op:
            return self.store(a[0], to, f"ptx_truncate_{to}({x})")
        raise Refused("conversion")

    def compare(self, op, a, t):
        x, y, how = self.value(a[1], t), self.value(a[2], t), op[1]
        if how in ("num", "nan"):
            test = f"{'!' if how == 'num' else ''}ptx_unordered({x}, {y})"
        elif t[0] == "f" and how[:-1] in COMPARE and how[-1] == "u":
            test = f"(ptx_unordered({x}, {y}) || {x} {COMPARE[how[:-1]]} {y})"
        elif t[0] == "f" and how == "ne":
            test = f"({x} != {y} && !ptx_unordered({x}, {y}))"
        else:
            test = f"({x} {COMPARE[how]} {y})"
        joined = {"and": "&&", "or": "||", "xor": "!="}.get(op[2])
        if joined:
            test = f"{test} {joined} {self.value(a[3], 'pred')}"
        if "|" in a[0]:
            raise Refused("two predicates")
        return self.store(a[0], "pred", test)

    def warp(self, o, op, a):
        self.site += 1
        if o == "shfl":
            how = next(h for h in ("down", "bfly", "up", "idx") if h in op)
            to, _, ok = a[0].partition("|")
            ok = f" {self.name_of(ok)} = ok_;" if ok else ""
            x, n, c, mask = (self.value(v, "b32") for v in a[1:5])
            result = (f"emulator_shuffle(SHUFFLE_{how.upper()}, {x}, {n}, {c}, {mask}, "
                      f"{self.site}, &ok_)")
            return "{ bool ok_; " + self.store(to, "b32", result) + ok + " (void)ok_; }"
        mask = self.value(a[2], "b32")
        ballot = f"emulator_ballot({self.value(a[1], 'pred')}, {mask}, {self.site})"
        if "ballot" in op:
            return self.store(a[0], "b32", ballot)
        test = {"any": f"{ballot} != 0", "all": f"{ballot} == ({mask})"}
        for how, value in test.items():
            if how in op:
                return self.store(a[0], "pred", value)
        raise Refused("vote")

    def atomic(self, op, a, t):
        space = "shared" if "shared" in op else "global" if "global" in op else "generic"
        how = next((h for h in ("add", "max", "min", "cas", "exch", "or", "and") if h in op), None)
        if how is None or t[0] == "f":
            raise Refused("atomic (sums of floats have no order)")
        at = self.address(a[1]).replace(";", "")
        x = self.value(a[2], t)
        new = {"add": f"old_ + {x}", "max": f"old_ > {x} ? old_ : {x}", "exch": x,
               "or": f"old_ | {x}", "min": f"old_ < {x} ? old_ : {x}",
               "and": f"old_ & {x}"}.get(how)
        if how == "cas":
            new = f"old_ == {x} ? {self.value(a[3], t)} : old_"
        width = int(t[1:]) // 8
        return (f"{{ emulator_pause(); unsigned char *at_ = emulator_{space}({at}, {width}, 1); "
                f"{c_type(t)} old_ = ptx_load_{t}(at_); ptx_store_{t}(at_, ({c_type(t)})({new})); "
                f"{self.store(a[0], t, 'old_')} }}")

    def copy(self, op, a):
        if "commit_group" in op:
            return "emulator_copy_commit();"
        if "wait_all" in op:
            return "emulator_copy_wait(0);"
        if "wait_group" in op:
            return f"emulator_copy_wait({a[0]});"
        if op[2] in ("ca", "cg") and "L2" not in " ".join(op):
            filled = self.value(a[3], "u32") if len(a) > 3 else a[2]
            return f"emulator_copy({self.address(a[0])}, {self.address(a[1])}, {a[2]}, {filled});"
        raise Refused("copy")

    def matrix(self, op, a):
        self.site += 1
        if not {"m16n8k16", "row", "col", "bf16"} <= set(op):
            raise Refused("mma shape or type")
        d, x, y, c = (split(v.strip("{}")) for v in a)
        words = lambda names: ", ".join(self.value(n, "b32") for n in names)
        took = (f"uint32_t d_[4], a_[4] = {{{words(x)}}}, b_[2] = {{{words(y)}}}, "
                f"c_[4] = {{{words(c)}}}; ")
        return ("{ " + took + f"emulator_mma_bf16(d_, a_, b_, c_, {self.site}); "
                + " ".join(self.store(n, "b32", f"d_[{i}]") for i, n in enumerate(d)) + " }")

    def move(self, a, t):
        half = {"b32": "b16", "b64": "b32"}.get(t)
        if a[0].startswith("{"):
            low, high = split(a[0].strip("{}"))
            shifted = f"v_ >> {half[1:]}"
            return ("{ " + f"{c_type(t)} v_ = {self.value(a[1], t)}; {self.store(low, half, 'v_')} "
                    + self.store(high, half, shifted) + " }")
        if a[1].startswith("{"):
            low, high = (self.value(n, half) for n in split(a[1].strip("{}")))
            return self.store(a[0], t, f"({c_type(t)}){low} | ({c_type(t)}){high} << {half[1:]}")
        return self.store(a[0], t, self.value(a[1], t))

    def plain(self, o, op, a, t):
        """What is one C expression."""
        v = lambda i, as_type=None: self.value(a[i], as_type or t)
        exact = t in ("f32", "f64") and "rn" in op
        if o in ("add", "sub", "mul") and t[0] == "f" and not exact:
            raise Refused("ptxas may contract it")
        if o in ("add", "sub") and t[0] == "s":
            t = "u" + t[1:]  # wraps
        if o in OPERATORS:
            return f"{v(1)} {OPERATORS[o]} {v(2)}"
        if o == "mul" and exact:
            return f"{v(1)} * {v(2)}"
        if o == "fma" and exact:
            return f"{'fmaf' if t == 'f32' else 'fma'}({v(1)}, {v(2)}, {v(3)})"
        if o == "div" and (exact or t[0] in "us"):
            return f"{v(1)} / {v(2)}"
        if o == "rem" and t[0] in "us":
            return f"{v(1)} % {v(2)}"
        if o == "sqrt" and exact:
            return f"{'sqrtf' if t == 'f32' else 'sqrt'}({v(1)})"
        if o == "rcp" and exact:
            return f"1 / {v(1)}"
        if o == "neg":
            return f"-{v(1)}" if t[0] == "f" else f"0 - {v(1, 'u' + t[1:])}"
        if o == "abs" and t == "f32":
            return f"fabsf({v(1)})"
        if o in ("min", "max"):
            return (f"f{o}f({v(1)}, {v(2)})" if t == "f32" else
                    f"{v(1)} {'<' if o == 'min' else '>'} {v(2)} ? {v(1)} : {v(2)}")
        if o == "not":
            return f"{'!' if t == 'pred' else '~'}{v(1)}"
        if o in ("shl", "shr"):
            return f"ptx_{o}_{'s' if t[0] == 's' else 'u'}({v(1)}, {v(2, 'u32')}, {t[1:]})"
        if o == "selp":
            return f"{self.value(a[3], 'pred')} ? {v(1)} : {v(2)}"
        raise Refused("no translation")

    def instruction(self, text):
        match = re.fullmatch(r"(?:@(!?)(%\w+)\s+)?([a-z][\w.:]*)\s*(.*)", text, re.S)
        if not match:
            raise Refused("no instruction")
        guard = "" if not match[2] else f"if ({match[1]}{self.name_of(match[2])}) "
        op, a = match[3].replace("::", ".").split("."), split(match[4])
        o, t = op[0], op[-1]
        if INEXACT & set(op):
            raise Refused("not exact")
        if o == "bra":
            return guard + f"goto {self.label(a[0])};"
        if o in ("ret", "exit"):
            return guard + "return;"
        if o == "trap":
            return guard + 'emulator_fault("trap");'
        if o in ("ld", "ldu", "st"):
            body = self.memory("st" if o == "st" else "ld", op, a, t)
        elif o in ("mul", "mad") and t[0] in "us":
            body = self.multiply(o, op, a, t)
        elif o == "mov":
            body = self.move(a, t)
        elif o == "cvta":
            space = "shared" if "shared" in op else "other"
            to = "to_" if "to" in op else ""
            body = self.store(a[0], t, f"emulator_cvta_{to}{space}({self.value(a[1], t)})")
        elif o == "cvt":
            body = self.convert(op, a)
        elif o == "setp":
            body = self.compare(op, a, t)
        elif o in ("shfl", "vote"):
            body = self.warp(o, op, a)
        elif o in ("bar", "barrier"):
            self.site += 1
            body = (f"emulator_warp_wait({self.value(a[0], 'b32')}, {self.site});" if "warp" in op
                    else f"emulator_barrier({self.site});")
            if "warp" not in op and ("sync" not in op or a != ["0"]):
                raise Refused("barrier other than bar.sync 0")
        elif o in ("atom", "red"):
            body = self.atomic(op, a if o == "atom" else ["_", *a], t)
        elif o == "cp" and "async" in op:
            body = self.copy(op, a)
        elif o == "mma":
            body = self.matrix(op, a)
        elif o in ("membar", "fence", "nanosleep"):
            body = "emulator_pause();"
        elif o in ("bfe", "bfi", "prmt", "popc", "clz", "brev", "shf"):
            body = self.bits(o, op, a, t)
        else:
            body = self.store(a[0], t, self.plain(o, op, a, t))
        return guard + body

    def bits(self, o, op, a, t):
        typed = {"shf": 0, "bfi": 2}.get(o, 1)  # operands that have the type; the rest are counts
        words = ", ".join(self.value(v, t if i < typed else "u32") for i, v in enumerate(a[1:]))
        if o in ("prmt", "bfe", "bfi", "brev") and t not in ("u32", "b32"):
            raise Refused("bits of this type")
        if o == "shf":
            return self.store(a[0], "b32", f"ptx_shf_{op[1]}({words}, {int(op[2] == 'wrap')})")
        name = f"ptx_{o}_{t}" if o in ("popc", "clz", "bfe") else f"ptx_{o}"
        return self.store(a[0], "u32" if o in ("popc", "clz") else t, f"{name}({words})")

    def label(self, name):
        return "L_" + name.replace("$", "_")

    # -- a whole kernel ---------------------------------------------------------------------

    def declare(self, body):
        """Takes the declarations out of the body and gives those that C needs."""
        out = []
        for match in re.finditer(r"\.reg\s+\.(\w+)\s+%(\w+)(?:<(\d+)>)?;", body):
            kind = "bool" if match[1] == "pred" else BITS[match[1][1:]]
            family = re.match(r"[a-zA-Z]+", match[2])[0]
            self.registers[family] = kind
            names = [match[2]] if match[3] is None else \
                [f"{match[2]}{i}" for i in range(int(match[3]))]
            out.append(f"    {kind} " + ", ".join(f"r_{name} = 0" for name in names) + ";")
        for align, _, name, size in re.findall(r"\.local\s+" + DECLARED, body):
            self.local[name] = int(size)
            out.append(f"    _Alignas({align}) unsigned char m_{name}[{size}];")
            out.append(f"    memset(m_{name}, 0xff, sizeof(m_{name}));")
        return out, re.sub(r"\.(?:reg|local|shared|pragma)\s[^;]*;", "", body)

    def translate(self, header, body, files):
        """The C function of one kernel."""
        for name, offset, size in parameters_of(header):
            self.parameters[name] = (offset, size)
        declared, body = self.declare(body)
        lines = []
        for piece in re.sub(r"(?m)^\s*[{}]\s*$", "", body).split(";"):
            piece = re.sub(r"\s+", " ", piece).strip()
            while match := re.match(r"(\$?[\w$]+):(?!:)\s*", piece):
                lines.append(f"{self.label(match[1])}:;")
                piece = piece[match.end():]
            if match := re.match(r"\.loc (\d+) (\d+)", piece):
                lines.append(f'#line {match[2]} "{files.get(match[1], "?")}"')
            elif piece:
                try:
                    lines.append("    " + self.instruction(piece))
                except (Refused, KeyError, IndexError, StopIteration) as problem:
                    raise Refused(f"{self.name}: {piece}: {problem}") from problem
        return [f"static void run_{self.name}(const unsigned char *parameters)", "{",
                "    (void)parameters;", *declared, *lines, "}", ""]


def parameters_of(text):
    """(name, offset, bytes) of each, laid out as the driver lays them out."""
    found, offset = [], 0
    for align, width, name, count in re.findall(
            r"\.param\s+(?:\.align\s+(\d+)\s+)?\.[bfus](\d+)\s+(?:\.ptr[^,]*?\s)?([\w$]+)"
            r"(?:\[(\d+)\])?", text):
        size = int(width) // 8 * int(count or 1)
        align = int(align or int(width) // 8)
        offset = (offset + align - 1) // align * align
        found.append((name, offset, size))
        offset += size
    return found


def place_shared(kernel, declarations):
    """Static shared memory of a kernel, then the extern arrays behind it; returns its size."""
    at, dynamic = 0, []
    for align, width, name, count in declarations:
        if count == "":  # an extern array has no size
            dynamic.append(name)
            continue
        at = (at + int(align) - 1) // int(align) * int(align)
        kernel.shared[name] = at
        at += int(width) // 8 * int(count or 1)
    at = (at + 15) // 16 * 16
    for name in dynamic:
        kernel.shared[name] = at
    return at


def shared_of(text):
    return [(align, width, name, count if bracket else None) for align, width, name, bracket, count
            in re.findall(r"\.shared\s+\.align\s+(\d+)\s+\.[bfus](\d+)\s+([\w$]+)"
                          r"(\[(\d*)\])?\s*;", text)]


def constants_of(source):
    """Tables of the module, as C."""
    out, names = [], []
    for align, name, size, data in re.findall(
            r"(?m)^\s*(?:\.visible\s+)?\.(?:const|global)\s+\.align\s+(\d+)\s+\.b8\s+"
            r"([\w$]+)\[(\d+)\]\s*=\s*\{([^}]*)\}", source):
        names.append(name)
        out.append(f"static const _Alignas({align}) unsigned char "
                   f"m_{name.replace('$', '_')}[{size}] = {{{data}}};")
    return out, names


def module(name, source):
    """The C file of a module, line by line."""
    source = re.sub(r"/\*.*?\*/", "", source, flags=re.S)
    source = re.sub(r"(?m)(?:^|(?<=\s))//[^\n]*", "", source)
    files = dict(re.findall(r'\.file\s+(\d+)\s+"([^"]+)"', source))
    source = re.sub(r"(?m)^(\s*\.loc\s[^\n]*)$", r"\1;", source)
    constants, symbols = constants_of(source)
    if re.search(r"(?m)^\s*(?:\.visible\s+|\.weak\s+)?\.func\b", source):
        raise Refused("a function that was not inlined")
    out, rows = ['#include "tests/cuda/ptx.h"', "", *constants], []
    outside = re.sub(r"(?s)\n\{.*?\n\}", "", source)
    entries = re.findall(r"(?s)\.entry\s+(\w+)\s*\((.*?)\).*?\n\{(.*?)\n\}", source)
    for entry, header, body in entries:
        kernel = Kernel(entry, symbols)
        used = [d for d in shared_of(outside) if re.search(rf"\b{re.escape(d[2])}\b", body)]
        size = place_shared(kernel, shared_of(body) + used)
        out += kernel.translate(header, body, files)
        given = list(kernel.parameters.values())
        sizes = "".join(f"{{{offset}, {size_}}}, " for offset, size_ in given)
        rows.append(f'    {{"{entry}", run_{entry}, {size}, {len(given)}, '
                    f'{{{sizes or "{0, 0}"}}}}},')
    return [*out, f"extern const emulator_kernel_t {name}[];",
            f"const emulator_kernel_t {name}[] = {{",
            *rows, '    {NULL, NULL, 0, 0, {{0, 0}}},', "};"]


def main():
    name, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        try:
            print("\n".join(module(name, file.read())))
        except Refused as refused:
            sys.exit(f"{path}: {refused}")


if __name__ == "__main__":
    main()
