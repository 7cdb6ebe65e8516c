{{- define "barnabas.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{- define "barnabas.selector" -}}
app.kubernetes.io/name: barnabas
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "barnabas.labels" -}}
{{ include "barnabas.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "barnabas.check" -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.zookeeper.connect) -}}
{{- fail "several brokers need zookeeper.connect: each would be a cluster of one broker" -}}
{{- end -}}
{{- range list "node.id" "broker.id" "listeners" "advertised.listeners" "log.dirs" "zookeeper.connect" "barnabas.metrics.listen" -}}
{{- if hasKey $.Values.config . -}}
{{- fail (printf "config.%s is set by the chart" .) -}}
{{- end -}}
{{- end -}}
{{- end }}
