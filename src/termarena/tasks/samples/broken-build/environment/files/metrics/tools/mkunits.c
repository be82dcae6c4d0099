/* mkunits < units.tab > units_table.h */
#include <stdio.h>

int main(void)
{
    char line[200], name[64], rest[2];
    double seconds;
    int number = 0, status = 0;

    puts("/* made from units.tab: do not edit */");
    puts("static const struct unit units_table[] = {");
    while (fgets(line, sizeof line, stdin)) {
        number++;
        if (line[0] == '#' || line[0] == '\n')
            continue;
        if (sscanf(line, " %63[A-Za-z] %lf %1s", name, &seconds, rest) != 2 || !(seconds > 0)) {
            fprintf(stderr, "units.tab, line %d: expected NAME SECONDS\n", number);
            status = 1;
            continue;
        }
        printf("    { \"%s\", %.17g },\n", name, seconds);
    }
    puts("};");
    return fflush(stdout) != 0 || ferror(stdout) ? 1 : status;
}
