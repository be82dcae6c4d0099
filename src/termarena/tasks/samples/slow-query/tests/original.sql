-- Customers of a region with orders in a period. Parameters: :region, :first, :last (YYYY-MM-DD, both days included).
SELECT
    c.id AS customer_id,
    c.name AS name,
    (SELECT r.name FROM customers r WHERE r.id = c.referrer_id) AS referrer,
    (SELECT count(*)
       FROM orders o
      WHERE o.customer_id = c.id
        AND substr(o.placed_at, 1, 10) BETWEEN :first AND :last
        AND o.status <> 'void') AS orders,
    (SELECT sum(l.quantity * l.cents)
       FROM lines l JOIN orders o ON o.id = l.order_id
      WHERE o.customer_id = c.id
        AND substr(o.placed_at, 1, 10) BETWEEN :first AND :last
        AND o.status <> 'void') AS gross,
    (SELECT sum(CASE p.kind WHEN 'refund' THEN -p.cents ELSE p.cents END)
       FROM payments p
      WHERE p.settled_on IS NOT NULL
        AND p.order_id IN (SELECT o.id
                             FROM orders o
                            WHERE o.customer_id = c.id
                              AND substr(o.placed_at, 1, 10) BETWEEN :first AND :last
                              AND o.status <> 'void')) AS paid,
    (SELECT o.id
       FROM orders o
      WHERE o.customer_id = c.id
        AND substr(o.placed_at, 1, 10) BETWEEN :first AND :last
        AND o.status <> 'void'
      ORDER BY o.placed_at DESC, o.id DESC
      LIMIT 1) AS last_order,
    (SELECT pr.category
       FROM lines l JOIN orders o ON o.id = l.order_id JOIN products pr ON pr.id = l.product_id
      WHERE o.customer_id = c.id
        AND substr(o.placed_at, 1, 10) BETWEEN :first AND :last
        AND o.status <> 'void'
      GROUP BY pr.category
      ORDER BY sum(l.quantity) DESC, pr.category
      LIMIT 1) AS top_category,
    NOT EXISTS (SELECT 1
                  FROM orders o
                 WHERE o.customer_id = c.id
                   AND substr(o.placed_at, 1, 10) < :first) AS is_new,
    (SELECT 1 + count(*)
       FROM customers d
      WHERE d.region = c.region
        AND coalesce((SELECT sum(l.quantity * l.cents)
                        FROM lines l JOIN orders o ON o.id = l.order_id
                       WHERE o.customer_id = d.id
                         AND substr(o.placed_at, 1, 10) BETWEEN :first AND :last
                         AND o.status <> 'void'), 0)
          > coalesce((SELECT sum(l.quantity * l.cents)
                        FROM lines l JOIN orders o ON o.id = l.order_id
                       WHERE o.customer_id = c.id
                         AND substr(o.placed_at, 1, 10) BETWEEN :first AND :last
                         AND o.status <> 'void'), 0)) AS place
FROM customers c
WHERE c.region = :region
  AND c.id NOT IN (SELECT b.customer_id FROM blocked b WHERE b.until IS NULL OR b.until >= :first)
  AND EXISTS (SELECT 1
                FROM orders o
               WHERE o.customer_id = c.id
                 AND substr(o.placed_at, 1, 10) BETWEEN :first AND :last
                 AND o.status <> 'void')
ORDER BY place, c.id
