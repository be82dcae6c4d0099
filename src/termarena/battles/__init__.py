"""Battles: agents measured over A2A. A green agent is the referee, a white agent is who is measured."""
