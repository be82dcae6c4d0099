#ifndef TEXT_H
#define TEXT_H

/* Cuts blanks and line ends off both ends of s, in place; returns the new start. */
char *trim(char *s);

/* Splits s at the first c: ends s there and returns what follows, or NULL. */
char *split(char *s, char c);

/* Are a and b the same, but for upper and lower case? */
int text_equal(const char *a, const char *b);

/* A copy of s from malloc; ends the program if there is no memory. */
char *text_copy(const char *s);

#endif
