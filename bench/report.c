#include "bench/report.h"

#include <stdlib.h>
#include <time.h>

#include "runtime/base/check.h"

double report_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double report_median(double *values, size_t count)
{
    ASSERT(count > 0);
    qsort(values, count, sizeof(values[0]), compare);
    return values[count / 2];
}

void report_open(report_t *report, const char *title, const char *unit, const char *json_path)
{
    *report = (report_t){.json = json_path != NULL ? fopen(json_path, "w") : NULL};
    if (json_path != NULL && report->json == NULL) {
        fprintf(stderr, "cannot write %s\n", json_path);
        exit(1);
    }
    printf("%s (%s)\n", title, unit);
    printf("%-36s %10s %10s %8s %6s\n", "", "ours", "other", "ratio", "goal");
    if (report->json != NULL)
        fprintf(report->json, "{\"title\": \"%s\", \"unit\": \"%s\", \"rows\": [", title, unit);
}

void report_row(report_t *report, const char *name, double ours, double other, double ratio,
                double goal)
{
    const bool missed = goal > 0 && ratio < goal;

    printf("%-36s %10.3f %10.3f %8.3f ", name, ours, other, ratio);
    if (goal > 0)
        printf("%6.2f%s\n", goal, missed ? "  missed" : "");
    else
        printf("%6s\n", "-");
    if (report->json != NULL)
        fprintf(report->json,
                "%s\n  {\"name\": \"%s\", \"ours\": %.6g, \"other\": %.6g, \"ratio\": %.6g, "
                "\"goal\": %.6g}",
                report->rows > 0 ? "," : "", name, ours, other, ratio, goal);
    (void)fflush(stdout);
    report->rows++;
    report->missed += missed;
}

int report_close(report_t *report)
{
    printf("%d rows, %d goals missed\n", report->rows, report->missed);
    if (report->json == NULL)
        return 0;
    fprintf(report->json, "\n]}\n");
    if (fclose(report->json) != 0) {
        fprintf(stderr, "the JSON was not written\n");
        return 1;
    }
    return 0;
}
