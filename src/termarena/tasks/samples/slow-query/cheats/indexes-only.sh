#!/bin/sh
# Tries: good indexes and the original query as it is; fine for a small region, hopeless for a large one.
cp /app/original.sql /app/report.sql
cat >/app/indexes.sql <<'SQL'
CREATE INDEX customers_region ON customers (region);
CREATE INDEX orders_customer ON orders (customer_id, substr(placed_at, 1, 10), status);
CREATE INDEX lines_order ON lines (order_id, product_id, quantity, cents);
CREATE INDEX payments_order ON payments (order_id, settled_on, kind, cents);
SQL
