/* Shared by the tests in C: an expectation that reports its line, and a call that must succeed. */
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

/* The call succeeds, and sets `error`, which has this name. */
#define WORKS(call)                                                                                  \
    do {                                                                                             \
        int status_ = (call);                                                                        \
        if (status_ < 0 || error.status != WIRELANE_OK || error.text[0] != '\0') {                   \
            fprintf(stderr, "%s:%d: %s: %d %s\n", __FILE__, __LINE__, #call, status_, error.text);   \
            exit(1);                                                                                 \
        }                                                                                            \
    } while (0)

/* The call fails with this status, and `error` has the same status and a reason. */
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
