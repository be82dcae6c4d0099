#!/bin/sh
# Tries: a few SQL statements for the common forms (ISO dates, plain numbers, floating-point money); all that does not fit is called an orphan.
cat >/app/migrate <<'PY'
#!/usr/bin/env python3
import os, sqlite3, sys
old, new = sys.argv[1:]
if not os.path.exists(old):
    sys.exit(1)
if os.path.exists(new):
    os.unlink(new)
db = sqlite3.connect(new)
db.executescript(open("/app/schema.sql").read())
db.execute("ATTACH ? AS old", (old,))
db.executescript("""
INSERT INTO customer SELECT min(id), trim(max(full_name)), lower(trim(email)), trim(phone), min(date(trim(since))) FROM old.cust WHERE email LIKE '%_@_%' GROUP BY lower(trim(email)) HAVING max(full_name) IS NOT NULL;
INSERT OR REPLACE INTO purchase
  SELECT cast(replace(replace(upper(trim(no)), 'ORD', ''), '#', '') AS INTEGER) n, c.id, date(trim(o.placed)),
         CASE lower(trim(o.state)) WHEN 'new' THEN 'open' WHEN 'pending' THEN 'open' WHEN 'sent' THEN 'shipped' WHEN 'done' THEN 'shipped' WHEN 'void' THEN 'cancelled' WHEN 'canceled' THEN 'cancelled' ELSE lower(trim(o.state)) END s
  FROM old.ord o JOIN customer c ON c.id = o.cust_id WHERE n > 0 AND date(trim(o.placed)) IS NOT NULL AND s IN ('open', 'paid', 'shipped', 'cancelled');
INSERT OR IGNORE INTO product SELECT upper(trim(sku)), coalesce(trim(title), sku) FROM old.ord_item WHERE trim(sku) <> '';
INSERT INTO purchase_line
  SELECT p.number, row_number() OVER (PARTITION BY p.number ORDER BY min(i.rowid)), upper(trim(i.sku)), sum(i.qty), round(replace(replace(i.price, '$', ''), ',', '') * 100) c
  FROM old.ord_item i JOIN purchase p ON p.number = cast(replace(replace(upper(trim(i.ord_no)), 'ORD-', ''), '#', '') AS INTEGER)
  WHERE i.qty > 0 AND trim(i.sku) <> '' AND i.price >= 0 GROUP BY p.number, upper(trim(i.sku)), i.price;
INSERT INTO quarantine SELECT 'cust', rowid, 'bad-email' FROM old.cust WHERE email NOT LIKE '%_@_%' OR email IS NULL;
INSERT INTO quarantine SELECT 'ord', rowid, 'orphan' FROM old.ord WHERE cust_id NOT IN (SELECT id FROM customer);
""")
db.commit()
print("customers={} products={} purchases={} lines={} quarantined={}".format(*(db.execute(f"SELECT count(*) FROM main.{t}").fetchone()[0] for t in ("customer", "product", "purchase", "purchase_line", "quarantine"))))
PY
chmod +x /app/migrate
/app/migrate /app/legacy.db /app/new.db
