/* bad_files.h - broken topology files, each with the place and the words that the first error must have. */
#ifndef TESTS_TOPOLOGY_BAD_FILES_H
#define TESTS_TOPOLOGY_BAD_FILES_H

typedef struct {
    const char *text;
    unsigned line, column; /* 0, 0: the file as a whole */
    const char *words;     /* must stand in the text of the error */
    unsigned count;        /* errors in all; 0: not looked at */
} bad_file_t;

#define HEAD "lockstep: 1\nmodel: m\n"
#define GROUPS "prefill: [{tp: 1}]\ndecode: [{tp: 1}]\n"

static const bad_file_t bad_files[] = {
    /* what is no YAML of ours */
    {"", 0, 0, "empty", 1},
    {"\n# only a comment\n", 0, 0, "empty", 1},
    {HEAD GROUPS "\tname: x\n", 5, 1, "tab", 1},
    {HEAD "prefill:\n  - tp: 1\n\t  slots: 3\n", 5, 1, "tab", 1},
    {HEAD "prefill: [{tp: 1}\ndecode: [{tp: 1}]\n", 4, 1, "expected ',' or ']'", 1},
    {HEAD "prefill: [{tp: 1]\n", 3, 17, "expected ',' or '}'", 1},
    {HEAD "prefill: [{tp: 1}", 4, 1, "a ',' is missing, or the bracket is not closed", 1},
    {HEAD "name: \"abc\n" GROUPS, 3, 7, "not closed", 1},
    {HEAD "name: 'abc\n" GROUPS, 3, 7, "not closed", 1},
    {HEAD "name: \"a\\qc\"\n" GROUPS, 3, 9, "escape", 1},
    {HEAD "name: &x abc\n" GROUPS, 3, 7, "anchor", 1},
    {HEAD "name: *x\n" GROUPS, 3, 7, "alias", 1},
    {HEAD "<<: *x\n" GROUPS, 3, 1, "merge key", 1},
    {HEAD "name: !!str abc\n" GROUPS, 3, 7, "tag", 1},
    {HEAD "name: |\n  abc\n" GROUPS, 3, 7, "block scalar", 1},
    {HEAD "name: >-\n  abc\n" GROUPS, 3, 7, "block scalar", 1},
    {"model: |./../model/@iny", 1, 9, "block scalar; write the value on one line", 1},
    {"%YAML 1.2\n---\n" HEAD GROUPS, 1, 1, "directive", 1},
    {HEAD GROUPS "---\n" HEAD GROUPS, 5, 1, "second document", 1},
    {HEAD GROUPS "...\n---\n", 6, 1, "second document", 1},
    {HEAD GROUPS "...\n" HEAD, 6, 1, "a topology file is one map", 1},
    {"--- lockstep: 1\n", 1, 13, "begin a new line", 1},
    {HEAD GROUPS "? [a]\n: 1\n", 5, 3, "a list cannot be a key", 1},
    {HEAD GROUPS "{a: b}: 1\n", 5, 1, "a map cannot be a key", 1},
    {HEAD GROUPS ": 1\n", 5, 1, "one 'key: value' a line", 1},
    {HEAD "?\n: 1\n", 3, 2, "a key is missing", 1},
    {HEAD "name: a: b\n" GROUPS, 3, 8, "begin a new line or use quotes", 1},
    {HEAD "name: [a] b\n" GROUPS, 3, 11, "one 'key: value' a line", 1},
    {HEAD "name: a\n  b\n" GROUPS, 3, 7, "over several lines", 1},
    {HEAD "name: 'a\n  b'\n" GROUPS, 3, 7, "over several lines", 1},
    {HEAD "   name: a\n" GROUPS, 2, 8, "the keys of a map in one column", 1},
    {"  lockstep: 1\nmodel: m\n", 2, 1, "its keys in one column", 1},
    {HEAD "prefill\n", 3, 1, "expected ':'", 1},
    {HEAD "- tp: 1\n", 3, 1, "its keys in one column", 1},
    {HEAD "name: @x\n", 3, 7, "quotes", 1},
    {HEAD "prefill: [,]\n", 3, 11, "a value is missing here", 1},
    {HEAD "prefill: [{tp: 1,, slots: 2}]\n", 3, 18, "a value is missing here", 1},
    {HEAD "prefill: [[[[[[[[[[1]]]]]]]]]]\n", 3, 17, "nested more than 8", 1},
    {HEAD "name: a\nname: b\n" GROUPS, 4, 1, "second time; the first is in line 3", 1},
    {HEAD "prefill: [{tp: 1, tp: 2}]\n", 3, 19, "second time", 1},
    {HEAD "name: \x01\n", 3, 7, "0x01", 1},
    {HEAD "name: \xff\n", 3, 7, "0xff", 1},
    {HEAD "name: \xc3\xa4\xc3(\n", 3, 9, "0x28: invalid trailing UTF-8", 1},
    {HEAD "name: \xed\xa0\x80\n", 3, 7, "0xed", 1},
    {HEAD "name: \"a\\0b\"\n", 3, 7, "control character", 1},
    {HEAD "\"na\\x9bme\": a\n", 3, 1, "control character", 1},
    {HEAD "name: \"\\L\"\n", 3, 7, "control character", 1},
    {HEAD "name: \"\\uFFFE\"\n", 3, 7, "control character", 1},
    {"hello", 1, 1, "expected a map", 1},
    {"- lockstep: 1\n", 1, 1, "expected a map", 1},

    /* keys */
    {"model: m\n" GROUPS, 1, 1, "lockstep: this key must be there", 1},
    {"lockstep: 1\n" GROUPS, 1, 1, "model: this key must be there", 1},
    {HEAD "decode: [{tp: 1}]\n", 1, 1, "prefill: this key must be there", 1},
    {HEAD "prefill: [{tp: 1}]\n", 1, 1, "decode: this key must be there", 1},
    {HEAD "prefil: [{tp: 1}]\ndecode: [{}]\n", 1, 1, "prefill", 2},
    {HEAD GROUPS "modle: x\n", 5, 1, "did you mean 'model'?", 1},
    {HEAD GROUPS "gateways: []\n", 5, 1, "did you mean 'gateway'?", 1},
    {HEAD GROUPS "zzz: 1\n", 5, 1, "there are lockstep, name, model", 1},
    {HEAD "prefill: [{pt: 1}]\ndecode: [{}]\n", 3, 12,
     "prefill[0].pt: there is no such key; did you mean 'tp'?", 1},
    {HEAD GROUPS "cache: {index_form: fp8}\n", 5, 9, "did you mean 'index'?", 1},
    {HEAD GROUPS "limits: {drain_timout: 30s}\n", 5, 10, "did you mean 'drain_timeout'?", 1},
    {HEAD GROUPS "transfer: [{}, {hots: local}]\n", 5, 17, "transfer[1].hots", 1},

    /* values */
    {"lockstep: 2\nmodel: m\n" GROUPS, 1, 11, "found '2', expected 1", 1},
    {"lockstep: one\nmodel: m\n" GROUPS, 1, 11, "found 'one', expected 1", 1},
    {"lockstep: 1\nmodel:\n" GROUPS, 2, 1, "model: found nothing, expected text", 1},
    {"lockstep: 1\nmodel: ~\n" GROUPS, 2, 1, "model: found nothing", 1},
    {"lockstep: 1\nmodel: [m]\n" GROUPS, 2, 8, "model: found a list, expected text", 1},
    {"lockstep: 1\nmodel: ''\n" GROUPS, 2, 8, "model: found '', expected text", 1},
    {HEAD "name: -x\n" GROUPS, 3, 7, "expected a name of letters", 1},
    {HEAD "name: a b\n" GROUPS, 3, 7, "found 'a b'", 1},
    {HEAD "device: gpu\n" GROUPS, 3, 9, "expected cpu or cuda", 1},
    {HEAD "device: cdua\n" GROUPS, 3, 9, "did you mean 'cuda'?", 1},
    {HEAD "prefill: {tp: 1}\ndecode: [{}]\n", 3, 10, "found a map, expected a list of maps", 1},
    {HEAD "prefill: 1\ndecode: [{}]\n", 3, 10, "found '1', expected a list of maps", 1},
    {HEAD "prefill: []\ndecode: [{}]\n", 3, 10, "empty", 1},
    {HEAD "prefill: [1]\ndecode: [{}]\n", 3, 11, "prefill[0]: found a value, expected a map", 1},
    {HEAD "prefill: [{tp: 0}]\ndecode: [{}]\n", 3, 16, "found '0', expected a number from 1 to 64",
     1},
    {HEAD "prefill: [{tp: 65}]\ndecode: [{}]\n", 3, 16, "found '65'", 1},
    {HEAD "prefill: [{tp: -1}]\ndecode: [{}]\n", 3, 16, "found '-1'", 1},
    {HEAD "prefill: [{tp: 1.5}]\ndecode: [{}]\n", 3, 16, "found '1.5'", 1},
    {HEAD "prefill: [{tp: 0x2}]\ndecode: [{}]\n", 3, 16, "found '0x2'", 1},
    {HEAD "prefill: [{tp: 010}]\ndecode: [{}]\n", 3, 16, "found '010'", 1},
    {HEAD "prefill: [{tp: '2'}]\ndecode: [{}]\n", 3, 16, "found '2', expected a number", 1},
    {HEAD "prefill: [{tp: 18446744073709551617}]\ndecode: [{}]\n", 3, 16,
     "found '18446744073709551617'", 1},
    {HEAD "prefill: [{tp: [1]}]\ndecode: [{}]\n", 3, 16, "found a list", 1},
    {HEAD "prefill: [{count: 65}]\ndecode: [{}]\n", 3, 19, "prefill[0].count: found '65'", 1},
    {HEAD "prefill: [{count: 40}, {count: 40}]\ndecode: [{}]\n", 3, 24, "more entries", 0},
    {HEAD "prefill: [{pages: aut}]\ndecode: [{}]\n", 3, 19, "or auto; did you mean 'auto'?", 1},
    {HEAD "prefill: [{pages: 1}]\ndecode: [{}]\n", 3, 19, "from 2 to", 1},
    {HEAD "prefill: [{slots: 1025}]\ndecode: [{}]\n", 3, 19, "from 1 to 1024", 1},
    {HEAD "prefill: [{devices: 0}]\ndecode: [{}]\n", 3, 21,
     "found '0', expected a list of device numbers", 1},
    {HEAD "prefill: [{devices: [a]}]\ndecode: [{}]\n", 3, 22,
     "found 'a', expected a list of device", 0},
    {HEAD "prefill: [{devices: [64]}]\ndecode: [{}]\n", 3, 22, "found '64'", 0},
    {HEAD "prefill: [{devices: []}]\ndecode: [{}]\n", 3, 21, "empty", 1},
    {HEAD "hosts: [{device_memory: 8}]\n" GROUPS, 3, 25, "found '8', expected bytes with a unit",
     1},
    {HEAD "hosts: [{device_memory: 8 Gb}]\n" GROUPS, 3, 25, "found '8 Gb'", 1},
    {HEAD "hosts: [{device_memory: 8KiB}]\n" GROUPS, 3, 25, "from 1MiB to 4TiB", 1},
    {HEAD "hosts: [{device_memory: 18446744073709551615TiB}]\n" GROUPS, 3, 25, "expected bytes", 1},
    {HEAD "limits: {drain_timeout: 30}\n" GROUPS, 3, 25, "a time with a unit from 0 to 24h", 1},
    {HEAD "limits: {stall_timeout: 0}\n" GROUPS, 3, 25, "a time with a unit from 1s to 24h", 1},
    {HEAD "limits: {drain_timeout: 25h}\n" GROUPS, 3, 25, "found '25h'", 1},
    {HEAD "limits: {drain_timeout: 30sec}\n" GROUPS, 3, 25, "found '30sec'", 1},
    {HEAD "limits: {context_tokens: 2000000}\n" GROUPS, 3, 26, "to 1048576", 1},
    {HEAD "limits: 3\n" GROUPS, 3, 9, "found '3', expected a map", 1},
    {HEAD "name: abcdefghijklmnopqrstuvwxyz-012345\n" GROUPS, 3, 7, "of 33 bytes, at most 31", 1},
    {HEAD "gateway: [{port: 0}]\n" GROUPS, 3, 18, "from 1 to 65535", 1},
    {HEAD "gateway: [{port: 65536}]\n" GROUPS, 3, 18, "from 1 to 65535", 1},
    {HEAD "gateway: [{listen: 'a b'}]\n" GROUPS, 3, 20, "an IPv4 address or localhost", 1},
    {HEAD "gateway: [{listen: '::1'}]\n" GROUPS, 3, 20,
     "gateway[0].listen: found '::1', expected an IPv4 address or localhost", 1},
    {HEAD "gateway: [{admin_listen: somewhere}]\n" GROUPS, 3, 26,
     "gateway[0].admin_listen: found 'somewhere', expected an IPv4 address or localhost", 1},
    {HEAD "hosts: [{name: a}]\ngateway: [{host: b}]\n" GROUPS, 4, 18, "expected the name of a host",
     1},
    {HEAD "hosts: [{name: alpha}, {name: beta}]\nscheduler: {host: alpa}\n" GROUPS, 4, 19,
     "did you mean 'alpha'?", 1},

    /* what does not fit together */
    {HEAD "hosts: [{name: a}, {name: a}]\n" GROUPS, 3, 27, "'a' is the name of hosts[0] too", 1},
    {HEAD "hosts: [{}, {}]\n" GROUPS, 3, 13, "'local' is the name of hosts[0] too", 1},
    {HEAD "device: cuda\n" GROUPS, 3, 9, "device_memory", 1},
    {HEAD "device: cuda\nhosts: [{devices: 2}]\n" GROUPS, 4, 9, "hosts[0].device_memory", 1},
    {HEAD "cache: {form: bf16, index: fp8}\n" GROUPS, 3, 28, "bf16 takes bf16", 1},
    {HEAD "cache: {form: fp8, index: float32}\n" GROUPS, 3, 27, "form fp8 takes fp4 or fp8", 1},
    {HEAD "gateway: [{port: 80, admin_port: 80}]\n" GROUPS, 3, 34, "80 is taken by gateway[0].port",
     1},
    {HEAD "gateway: [{}, {admin_port: 9000}]\n" GROUPS, 3, 15,
     "gateway[1].port: 8000 is taken by gateway[0].port", 1},
    {HEAD "gateway: [{}, {listen: 0.0.0.0, port: 8001, admin_port: 9}]\n" GROUPS, 3, 39,
     "8001 is taken by gateway[0].admin_port", 1},
    {HEAD "prefill: [{tp: 2, devices: [0]}]\ndecode: [{tp: 1}]\n", 3, 28, "1 devices for tp 2", 1},
    {HEAD "prefill: [{tp: 2, devices: [0, 0]}]\ndecode: [{tp: 1}]\n", 3, 28, "0 stands there twice",
     1},
    {HEAD "hosts: [{devices: 2}]\nprefill: [{devices: [2]}]\ndecode: [{}]\n", 4, 21,
     "no device 2; host 'local' has 2", 1},
    {HEAD "prefill: [{devices: [1]}]\ndecode: [{devices: [1]}]\n", 4, 20,
     "decode[0].devices: device 1 of host 'local' belongs to prefill[0] already", 1},
    {HEAD "prefill: [{count: 2, devices: [1]}]\ndecode: [{}]\n", 3, 31,
     "belongs to prefill[0] already", 1},
    {HEAD "hosts: [{name: a}, {name: b}]\nprefill: [{devices: [1]}]\ndecode: [{}]\n", 4, 21,
     "of which host?", 1},
    {HEAD "hosts: [{devices: 3}]\nprefill: [{tp: 2}]\ndecode: [{tp: 2}]\n", 5, 15,
     "needs 2 devices, but host 'local' has 1 of 3", 1},
    {HEAD "hosts: [{name: a, devices: 2}, {name: b, devices: 2}]\nprefill: [{tp: 2}]\ndecode: "
          "[{tp: 4}]\n",
     5, 15, "needs 4 devices of one host", 1},
    {HEAD "hosts: [{name: a, devices: 1}, {name: b, devices: 4}]\nprefill: [{tp: 2, host: "
          "a}]\ndecode: [{tp: 2}]\n",
     4, 16, "host 'a' has 1 of 1", 1},
    {HEAD "prefill: [{tp: 4}]\ndecode: [{tp: 3}]\n", 4, 15, "3 does not map to prefill[0].tp, 4",
     1},
    {HEAD "prefill: [{tp: 2}, {tp: 3}]\ndecode: [{tp: 2}]\n", 4, 15, "prefill[1].tp, 3", 1},
    {HEAD "prefill: [{}]\ndecode: [{slots: 64, chunk_tokens: 63}]\n", 4, 36,
     "63 is less than slots, 64", 1},
    {HEAD "prefill: [{}]\ndecode: [{slots: 1000}]\n", 4, 10, "512 is less than slots, 1000", 1},
    {HEAD "limits: {context_tokens: 1024}\nprefill: [{pages: 4}]\ndecode: [{}]\n", 4, 19,
     "at least 5", 1},
    {HEAD "prefill: [{count: 64}]\ndecode: [{count: 64}]\n", 4, 10, "0 of 64 devices left", 0},
    {HEAD "prefill: [{count: 16, tp: 16}]\ndecode: [{count: 16, tp: 16}]\n", 0, 0,
     "actors, ranks included", 0},
};

/* Several things wrong at once: all are told, in the order of the file. */
static const char several_bad[] = "lockstep: 1\n"
                                  "modle: m\n"
                                  "device: gpu\n"
                                  "prefill:\n"
                                  "  - tp: 0\n"
                                  "    slotz: 4\n"
                                  "decode:\n"
                                  "  - pages: lots\n";
static const char *const several_bad_lines[] = {
    "several.yaml:1:1: model: this key must be there: folder of the checkpoint, relative to this "
    "file",
    "several.yaml:2:1: modle: there is no such key; did you mean 'model'?",
    "several.yaml:3:9: device: found 'gpu', expected cpu or cuda; did you mean 'cpu'?",
    "several.yaml:5:9: prefill[0].tp: found '0', expected a number from 1 to 64",
    "several.yaml:6:5: prefill[0].slotz: there is no such key; did you mean 'slots'?",
    "several.yaml:8:12: decode[0].pages: found 'lots', expected a number from 2 to 16777216, or "
    "auto",
};

#endif
