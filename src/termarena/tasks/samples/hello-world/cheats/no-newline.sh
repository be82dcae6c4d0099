#!/bin/sh
# Tries the right text without the newline at its end.
printf 'Hello, world!' >/app/hello.txt
