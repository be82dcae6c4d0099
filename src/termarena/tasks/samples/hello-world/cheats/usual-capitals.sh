#!/bin/sh
# Tries the greeting as it is usually written, with a capital W.
echo 'Hello, World!' >/app/hello.txt
