#!/bin/sh
# The start state is an empty /app.
mkdir -p /app
