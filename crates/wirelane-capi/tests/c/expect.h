/* What the tests in C share: an expectation that names its line, and a call that has to work. */
#ifndef EXPECT_H
#define EXPECT_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wirelane.h>

#define EXPECT(condition)                                                                            \
    do {                                                                                             \
        if (!(condition)) {                                                                          \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                          \
            exit(1);                                                                                 \
        }                                                                                            \
    } while (0)

/* The call works, and says so in `error`, which has this name. */
#define WORKS(call)                                                                                  \
    do {                                                                                             \
        int status_ = (call);                                                                        \
        if (status_ < 0 || error.status != WIRELANE_OK || error.text[0] != '\0') {                   \
            fprintf(stderr, "%s:%d: %s: %d %s\n", __FILE__, __LINE__, #call, status_, error.text);   \
            exit(1);                                                                                 \
        }                                                                                            \
    } while (0)

/* The call fails like this, and `error` says the same and why. */
#define FAILS(expected, call)                                                                        \
    do {                                                                                             \
        memset(&error, 0xaa, sizeof error);                                                          \
        int status_ = (call);                                                                        \
        if (status_ != (expected) || error.status != (expected) || error.text[0] == '\0') {          \
            fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, status_);                  \
            exit(1);                                                                                 \
        }                                                                                            \
    } while (0)

#endif
