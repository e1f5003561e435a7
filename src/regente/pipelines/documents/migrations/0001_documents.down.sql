DROP VIEW regente.document_results;
DROP TABLE regente.document_contents;
DROP TABLE regente.documents;
DROP TABLE regente.document_executions;
DROP TABLE regente.document_projects;
