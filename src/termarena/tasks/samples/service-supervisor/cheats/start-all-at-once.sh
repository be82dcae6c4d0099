#!/bin/sh
# Tries the usual quick supervisor: starts everything at once in file order, restarts for ever, kills in any order.
cat >/app/superv <<'PY'
#!/usr/bin/env python3
import configparser, os, signal, subprocess, sys, time
try:
    config = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#", ";"))
    config.read_file(open(sys.argv[1]))
    names = config.sections()
    assert names and len(sys.argv) == 3
    for n in names:
        assert config[n]["command"]
except Exception as e:
    print(e, file=sys.stderr)
    sys.exit(2)
os.makedirs(sys.argv[2], exist_ok=True)
procs, starts, state, stop = {}, dict.fromkeys(names, 0), dict.fromkeys(names, "waiting"), []
def tell(*w):
    with open(sys.argv[2] + "/state.new", "w") as f:
        for n in names:
            f.write("%s %s %s %d 0\n" % (n, state[n], procs[n].pid if n in procs else "-", starts[n]))
    os.replace(sys.argv[2] + "/state.new", sys.argv[2] + "/state")
    print(*w, flush=True)
def start(n):
    starts[n] += 1
    log = open("%s/%s.log" % (sys.argv[2], n), "ab")
    procs[n] = subprocess.Popen(["/bin/sh", "-c", config[n]["command"]], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                env=dict(os.environ, SUPERV_NAME=n, SUPERV_START=str(starts[n])), start_new_session=True)
    state[n] = "up"
    tell("start", n, starts[n])
    if config[n].get("type", "daemon") == "daemon":
        tell("up", n)
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
signal.signal(signal.SIGINT, lambda *_: stop.append(1))
for n in names:
    start(n)
while procs and not stop:
    for n in list(procs):
        status = procs[n].poll()
        if status is None:
            continue
        del procs[n]
        tell("end", n, status if status >= 0 else 128 - status)
        if status == 0 and config[n].get("restart") != "always":
            state[n] = "done" if config[n].get("type") == "oneshot" else "exited"
            tell(state[n], n)
        elif config[n].get("restart", "no") != "no":
            start(n)
        else:
            state[n] = "failed"
            tell("failed", n)
    time.sleep(0.02)
for n in list(procs):
    os.killpg(procs[n].pid, signal.SIGTERM)
    tell("stop", n)
    status = procs.pop(n).wait()
    tell("end", n, status if status >= 0 else 128 - status)
    state[n] = "stopped"
    tell("stopped", n)
sys.exit(1 if "failed" in state.values() else 0)
PY
chmod 755 /app/superv
