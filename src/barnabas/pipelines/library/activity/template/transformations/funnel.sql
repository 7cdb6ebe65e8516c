-- How far visits got, by the hour in which they began.
CREATE MATERIALIZED VIEW funnel AS
SELECT
  date_trunc('hour', start) AS hour,
  count(*) AS visits,
  count_if(carted = 1 OR ordered = 1) AS with_cart,
  count_if(ordered = 1) AS with_order,
  round(sum(amount), 2) AS turnover
FROM sessions
GROUP BY date_trunc('hour', start);
