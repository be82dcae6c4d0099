"""Shell text taken apart, never run: lines, the programs that they call, what those do, the statements of scripts."""
