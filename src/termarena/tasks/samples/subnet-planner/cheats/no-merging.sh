#!/bin/sh
# Tries: the placement done right, the firewall rules one line per flow and site (not merged), and invalid requests planned all the same.
cat >/app/subnet-plan <<'PY'
#!/usr/bin/env python3
import ipaddress as ip, json, os, sys
if len(sys.argv) != 3 or not os.path.isfile(sys.argv[1]):
    sys.exit(2)
req = json.load(open(sys.argv[1]))
blocks = [ip.ip_network(b, False) for b in req["blocks"]]
cut = []
for r in req["reserved"]:
    a, b = r.split("-") if "-" in r else (ip.ip_network(r, False)[0], ip.ip_network(r, False)[-1])
    cut.append((int(ip.ip_address(a)), int(ip.ip_address(b))))


def free(b):
    if not any(x <= int(b[-1]) and y >= int(b[0]) for x, y in cut):
        return [b]
    if b.prefixlen == 32 or any(x <= int(b[0]) and y >= int(b[-1]) for x, y in cut):
        return []
    return [f for h in b.subnets() for f in free(h)]


placed, left, pre = {}, {}, {}
hosts = {s["name"]: s["hosts"] for s in req["sites"]}
for n, h in hosts.items():
    pre[n] = min(30, 32 - (-(-h * (100 + req["growth_percent"]) // 100) + 2).bit_length())
for s in req["sites"]:
    if "pin" in s:
        p, n = ip.ip_network(s["pin"], False), s["name"]
        if p.prefixlen > pre[n]:
            left[n] = "pin-too-small"
        elif not any(p.subnet_of(b) for b in blocks):
            left[n] = "pin-outside"
        elif any(x <= int(p[-1]) and y >= int(p[0]) for x, y in cut):
            left[n] = "pin-taken"
        else:
            placed[n] = p
            cut.append((int(p[0]), int(p[-1])))
for s in sorted((s for s in req["sites"] if "pin" not in s), key=lambda s: (pre[s["name"]], s["name"])):
    n = s["name"]
    fit = [f for b in blocks for f in free(b) if f.prefixlen <= pre[n]]
    if fit:
        placed[n] = p = ip.ip_network((int(min(fit, key=lambda f: (-f.prefixlen, f))[0]), pre[n]))
        cut.append((int(p[0]), int(p[-1])))
    else:
        left[n] = "no-space"
os.makedirs(sys.argv[2], exist_ok=True)
with open(sys.argv[2] + "/plan.csv", "w") as f:
    f.write("site,subnet,gateway,first_host,last_host,broadcast,spare\n")
    for n, t in sorted(placed.items(), key=lambda x: x[1]):
        f.write(f"{n},{t},{t[1]},{t[2]},{t[-2]},{t[-1]},{t.num_addresses - 3 - hosts[n]}\n")
with open(sys.argv[2] + "/unplaced.csv", "w") as f:
    f.write("site,prefix,reason\n" + "".join(f"{n},{pre[n]},{left[n]}\n" for n in sorted(left)))
lines = {(placed[fl["to"]], fl["proto"], p, placed[n]) for fl in req["flows"] for p in fl["ports"] for n in (placed if fl["from"] == ["*"] else fl["from"])
         if n in placed and fl["to"] in placed and n != fl["to"]}
with open(sys.argv[2] + "/firewall.rules", "w") as f:
    f.writelines(f"allow {b} from {d} to {a} port {c}\n" for a, b, c, d in sorted(lines))
    f.write("deny any\n")
sys.exit(3 if left else 0)
PY
chmod +x /app/subnet-plan
/app/subnet-plan /app/request.json /app/out
