/* report.h - a table and JSON of ratios: ours and another way of doing the same, measured in turns in one run.
 *
 *     report_open(&report, "copies against memcpy", "GB/s", argc > 1 ? argv[1] : NULL);
 *     report_row(&report, "history, backup", ours, other, ratio, 0.9);
 *     return report_close(&report);
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct {
    FILE *json; /* NULL: no file wanted */
    int rows;
    int missed;
} report_t;

enum { REPORT_TURNS_MAX = 101 };

/* Seconds of a clock that never goes back. */
double report_seconds(void);
/* The middle one; sorts `values`. */
double report_median(double *values, size_t count);

/* `json_path` may be NULL. */
void report_open(report_t *report, const char *title, const char *unit, const char *json_path);
/* `ratio` is ours to other, larger is better; goal 0: none, the row informs. */
void report_row(report_t *report, const char *name, double ours, double other, double ratio,
                double goal);
/* The exit status: 1 if the JSON could not be written. A missed goal is a finding, not an error. */
int report_close(report_t *report);

#endif
