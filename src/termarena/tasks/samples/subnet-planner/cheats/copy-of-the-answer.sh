#!/bin/sh
# Tries: the right files for the visible request, written by hand, behind a program that only copies them.
mkdir -p /app/out
cat >/app/out/plan.csv <<'X'
site,subnet,gateway,first_host,last_host,broadcast,spare
cam-1,10.40.2.0/28,10.40.2.1,10.40.2.2,10.40.2.14,10.40.2.15,4
link-a,10.40.2.24/29,10.40.2.25,10.40.2.26,10.40.2.30,10.40.2.31,4
riga,10.40.2.64/26,10.40.2.65,10.40.2.66,10.40.2.126,10.40.2.127,6
bern,10.40.2.128/25,10.40.2.129,10.40.2.130,10.40.2.254,10.40.2.255,69
lyon,10.40.5.0/25,10.40.5.1,10.40.5.2,10.40.5.126,10.40.5.127,15
link-b,10.40.5.192/29,10.40.5.193,10.40.5.194,10.40.5.198,10.40.5.199,4
oslo,10.40.6.128/25,10.40.6.129,10.40.6.130,10.40.6.254,10.40.6.255,15
depot,10.40.8.0/21,10.40.8.1,10.40.8.2,10.40.15.254,10.40.15.255,545
hq,10.40.16.0/22,10.40.16.1,10.40.16.2,10.40.19.254,10.40.19.255,151
lab,10.40.20.0/23,10.40.20.1,10.40.20.2,10.40.21.254,10.40.21.255,278
dns,172.20.8.64/28,172.20.8.65,172.20.8.66,172.20.8.78,172.20.8.79,9
cam-10,172.20.8.80/28,172.20.8.81,172.20.8.82,172.20.8.94,172.20.8.95,3
cam-2,192.168.96.16/28,192.168.96.17,192.168.96.18,192.168.96.30,192.168.96.31,3
print,192.168.97.0/26,192.168.97.1,192.168.97.2,192.168.97.62,192.168.97.63,31
X
cat >/app/out/unplaced.csv <<'X'
site,prefix,reason
factory,19,no-space
vault,27,pin-too-small
X
cat >/app/out/firewall.rules <<'X'
allow tcp from 10.40.2.128/25 to 10.40.16.0/22 port 22
allow tcp from 10.40.5.0/25 to 10.40.16.0/22 port 22
allow tcp from 10.40.6.128/25 to 10.40.16.0/22 port 22
allow tcp from 10.40.2.64/26 to 10.40.16.0/22 port 443
allow tcp from 10.40.2.128/25 to 10.40.16.0/22 port 443
allow tcp from 10.40.5.0/25 to 10.40.16.0/22 port 443
allow tcp from 10.40.6.128/25 to 10.40.16.0/22 port 443
allow tcp from 10.40.8.0/21 to 10.40.16.0/22 port 443
allow udp from 10.40.2.0/28 to 10.40.20.0/23 port 554
allow udp from 172.20.8.80/28 to 10.40.20.0/23 port 554
allow udp from 192.168.96.16/28 to 10.40.20.0/23 port 554
allow udp from 10.40.2.0/28 to 10.40.20.0/23 port 5004
allow udp from 172.20.8.80/28 to 10.40.20.0/23 port 5004
allow udp from 192.168.96.16/28 to 10.40.20.0/23 port 5004
allow tcp from 10.40.2.0/28 to 172.20.8.64/28 port 53
allow tcp from 10.40.2.24/29 to 172.20.8.64/28 port 53
allow tcp from 10.40.2.64/26 to 172.20.8.64/28 port 53
allow tcp from 10.40.2.128/25 to 172.20.8.64/28 port 53
allow tcp from 10.40.5.0/25 to 172.20.8.64/28 port 53
allow tcp from 10.40.5.192/29 to 172.20.8.64/28 port 53
allow tcp from 10.40.6.128/25 to 172.20.8.64/28 port 53
allow tcp from 10.40.8.0/21 to 172.20.8.64/28 port 53
allow tcp from 10.40.16.0/22 to 172.20.8.64/28 port 53
allow tcp from 10.40.20.0/23 to 172.20.8.64/28 port 53
allow tcp from 172.20.8.80/28 to 172.20.8.64/28 port 53
allow tcp from 192.168.96.16/28 to 172.20.8.64/28 port 53
allow tcp from 192.168.97.0/26 to 172.20.8.64/28 port 53
allow tcp from 10.40.2.0/28 to 172.20.8.64/28 port 853
allow tcp from 10.40.2.24/29 to 172.20.8.64/28 port 853
allow tcp from 10.40.2.64/26 to 172.20.8.64/28 port 853
allow tcp from 10.40.2.128/25 to 172.20.8.64/28 port 853
allow tcp from 10.40.5.0/25 to 172.20.8.64/28 port 853
allow tcp from 10.40.5.192/29 to 172.20.8.64/28 port 853
allow tcp from 10.40.6.128/25 to 172.20.8.64/28 port 853
allow tcp from 10.40.8.0/21 to 172.20.8.64/28 port 853
allow tcp from 10.40.16.0/22 to 172.20.8.64/28 port 853
allow tcp from 10.40.20.0/23 to 172.20.8.64/28 port 853
allow tcp from 172.20.8.80/28 to 172.20.8.64/28 port 853
allow tcp from 192.168.96.16/28 to 172.20.8.64/28 port 853
allow tcp from 192.168.97.0/26 to 172.20.8.64/28 port 853
allow udp from 10.40.2.0/28 to 172.20.8.64/28 port 53
allow udp from 10.40.2.24/29 to 172.20.8.64/28 port 53
allow udp from 10.40.2.64/26 to 172.20.8.64/28 port 53
allow udp from 10.40.2.128/25 to 172.20.8.64/28 port 53
allow udp from 10.40.5.0/25 to 172.20.8.64/28 port 53
allow udp from 10.40.5.192/29 to 172.20.8.64/28 port 53
allow udp from 10.40.6.128/25 to 172.20.8.64/28 port 53
allow udp from 10.40.8.0/21 to 172.20.8.64/28 port 53
allow udp from 10.40.16.0/22 to 172.20.8.64/28 port 53
allow udp from 10.40.20.0/23 to 172.20.8.64/28 port 53
allow udp from 172.20.8.80/28 to 172.20.8.64/28 port 53
allow udp from 192.168.96.16/28 to 172.20.8.64/28 port 53
allow udp from 192.168.97.0/26 to 172.20.8.64/28 port 53
allow tcp from 10.40.8.0/21 to 192.168.97.0/26 port 9100
deny any
X
cat >/app/subnet-plan <<'X'
#!/bin/sh
[ $# -eq 2 ] && [ -r "$1" ] || exit 2
mkdir -p "$2" && cp /app/out/plan.csv /app/out/unplaced.csv /app/out/firewall.rules "$2"
exit 3
X
chmod +x /app/subnet-plan
