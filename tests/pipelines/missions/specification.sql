-- The original specification's own queries (6.5 to 6.8 and 10.3), word for word.

-- name: available_workers
-- Workers que podem receber novas missões
SELECT 
  w.*,
  p.name as current_proxy_name
FROM workers w
LEFT JOIN proxies p ON p.in_use_by_worker_id = w.id
WHERE w.active = true
  AND w.status IN ('idle', 'ready')
  AND w.current_mission_id IS NULL;

-- name: pending_in_writer
-- Missões aguardando ou em processamento no writer
SELECT *
FROM missions
WHERE status = 'running'
  AND checkpoint = 'armazenamento';

-- name: should_it_end
-- Verifica se ainda há trabalho pendente
SELECT 
  COUNT(*) FILTER (WHERE status = 'queued') as queued_count,
  COUNT(*) FILTER (WHERE status = 'running') as running_count
FROM missions;
-- Se ambos = 0, pode encerrar

-- name: mission_with_details
-- Busca missão com informações de worker e proxy para auditoria
SELECT 
  m.*,
  w.name as worker_name,
  w.url as worker_url,
  m.proxy_used as proxy_name
FROM missions m
LEFT JOIN workers w ON m.worker_id = w.id
WHERE m.id = :mission_id;

-- name: timeline
SELECT 
  ml.timestamp,
  ml.event,
  ml.details
FROM mission_logs ml
WHERE ml.mission_id = :mission_id
ORDER BY ml.timestamp ASC;

-- name: failed_in_24_hours
SELECT 
  m.id,
  m.status,
  m.error_code,
  m.error_message,
  m.retry_count,
  ml.timestamp as failed_at,
  ml.details
FROM missions m
JOIN mission_logs ml ON ml.mission_id = m.id
WHERE ml.event = 'mission_failed'
  AND ml.timestamp > now() - interval '24 hours'
ORDER BY ml.timestamp DESC;

-- name: performance_per_worker
SELECT 
  w.name as worker_name,
  COUNT(*) FILTER (WHERE ml.event = 'scrape_completed') as completed_count,
  COUNT(*) FILTER (WHERE ml.event = 'scrape_failed') as failed_count,
  AVG((ml.details->>'duration_ms')::int) 
    FILTER (WHERE ml.event = 'scrape_completed') as avg_duration_ms
FROM workers w
JOIN missions m ON m.worker_id = w.id
JOIN mission_logs ml ON ml.mission_id = m.id
WHERE ml.event IN ('scrape_completed', 'scrape_failed')
  AND ml.timestamp > now() - interval '7 days'
GROUP BY w.id, w.name;

-- name: problem_proxies
SELECT 
  p.name,
  p.host,
  p.fail_count,
  p.active,
  COUNT(*) FILTER (WHERE ml.event = 'session_failed') as session_failures,
  COUNT(*) FILTER (WHERE ml.event = 'proxy_rotated') as rotations
FROM proxies p
LEFT JOIN mission_logs ml ON ml.details->>'proxy_name' = p.name
  AND ml.event IN ('session_failed', 'proxy_rotated')
  AND ml.timestamp > now() - interval '7 days'
GROUP BY p.id, p.name, p.host, p.fail_count, p.active
ORDER BY p.fail_count DESC;
