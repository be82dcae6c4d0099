"""Hidden tests. What is right stands here, not in a file that the agent can change."""

import hashlib
import unittest
from pathlib import Path

LOG_SHA256 = "5e94f058821a6eb4f1e4558b201d3483626262c18837b7b5a3ba37d716f497ea"


class Status(unittest.TestCase):
    def test_the_counts_are_right(self):
        self.assertEqual(Path("/app/status.txt").read_text(), "200 3\n304 1\n404 2\n500 1\n")

    def test_the_log_is_as_it_was(self):
        self.assertEqual(hashlib.sha256(Path("/app/access.log").read_bytes()).hexdigest(), LOG_SHA256)


if __name__ == "__main__":
    unittest.main()
