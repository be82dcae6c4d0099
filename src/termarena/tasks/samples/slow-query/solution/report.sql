WITH
-- The orders that count, of all customers of the region.
hits AS MATERIALIZED (
    SELECT c.id AS customer_id, o.id AS order_id
      FROM customers c CROSS JOIN orders o ON o.customer_id = c.id
     WHERE c.region = :region
       AND o.placed_at >= :first AND o.placed_at < :last || '!'   -- '!' comes right after ' ', so all of the last day is in
       AND o.status <> 'void'
),
gross AS MATERIALIZED (
    SELECT h.customer_id, sum(l.quantity * l.cents) AS gross
      FROM hits h CROSS JOIN lines l ON l.order_id = h.order_id
     GROUP BY h.customer_id
),
-- All customers of the region take part in the ranking: blocked ones too, and those without orders at 0.
places AS MATERIALIZED (
    SELECT c.id, c.name, c.referrer_id, g.gross, rank() OVER (ORDER BY coalesce(g.gross, 0) DESC) AS place
      FROM customers c LEFT JOIN gross g ON g.customer_id = c.id
     WHERE c.region = :region
)
SELECT
    c.id AS customer_id,
    c.name AS name,
    (SELECT r.name FROM customers r WHERE r.id = c.referrer_id) AS referrer,
    (SELECT count(*)
       FROM orders o
      WHERE o.customer_id = c.id AND o.placed_at >= :first AND o.placed_at < :last || '!' AND o.status <> 'void') AS orders,
    c.gross AS gross,
    (SELECT sum(CASE p.kind WHEN 'refund' THEN -p.cents ELSE p.cents END)
       FROM orders o CROSS JOIN payments p ON p.order_id = o.id
      WHERE o.customer_id = c.id AND o.placed_at >= :first AND o.placed_at < :last || '!' AND o.status <> 'void'
        AND p.settled_on IS NOT NULL) AS paid,
    (SELECT o.id
       FROM orders o
      WHERE o.customer_id = c.id AND o.placed_at >= :first AND o.placed_at < :last || '!' AND o.status <> 'void'
      ORDER BY o.placed_at DESC, o.id DESC
      LIMIT 1) AS last_order,
    (SELECT pr.category
       FROM orders o CROSS JOIN lines l ON l.order_id = o.id CROSS JOIN products pr ON pr.id = l.product_id
      WHERE o.customer_id = c.id AND o.placed_at >= :first AND o.placed_at < :last || '!' AND o.status <> 'void'
      GROUP BY pr.category
      ORDER BY sum(l.quantity) DESC, pr.category
      LIMIT 1) AS top_category,
    NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id AND o.placed_at < :first) AS is_new,
    c.place AS place
FROM places c
WHERE c.id NOT IN (SELECT b.customer_id FROM blocked b WHERE b.until IS NULL OR b.until >= :first)
  AND EXISTS (SELECT 1
                FROM orders o
               WHERE o.customer_id = c.id AND o.placed_at >= :first AND o.placed_at < :last || '!' AND o.status <> 'void')
ORDER BY c.place, c.id
