"""Calls of PyTorch on grids of shapes and settings, where only combinations tell wrong rows from right ones.

    python grids.py OUT      PyTorch's answers as one of the parts that `around.py keep` reads: OUT/part-grids.jsonl
"""
import sys, itertools, json, random, warnings
warnings.filterwarnings('ignore')
import torch
from around import written, ask, near, resolve
torch.set_num_threads(1)
rng=random.Random(3)
f64=torch.float64
def r(*s): return torch.tensor([rng.randrange(-4,5) for _ in range(int(torch.tensor(s).prod()) if s else 1)],dtype=f64).reshape(s)
def n(*s,hi=2): return torch.tensor([rng.randrange(0,hi) for _ in range(int(torch.tensor(s).prod()) if s else 1)],dtype=torch.int64).reshape(s)
calls=[]
sh=[(),(0,),(1,),(2,),(3,),(0,2),(2,0),(2,2),(2,3),(1,2,2)]
for a,b in itertools.product(sh,sh):
    for d in (0,1,-1):
        calls.append(('torch.gather',[r(*a),d,n(*b)],{}))
        calls.append(('torch.scatter',[r(*a),d,n(*b),2.0],{}))
        for c in sh[:8]:
            if rng.random()<0.5 or c==b or c==a:
                calls.append(('torch.scatter',[r(*a),d,n(*b),r(*c)],{}))
                calls.append(('torch.scatter_add',[r(*a),d,n(*b),r(*c)],{}))
                calls.append(('torch.scatter_reduce',[r(*a),d,n(*b),r(*c),'sum'],{}))
                calls.append(('torch.scatter_reduce',[r(*a),d,n(*b),r(*c),'amax'],{'include_self':False}))
    calls.append(('torch.take_along_dim',[r(*a),n(*b),0],{}))
    calls.append(('torch.take_along_dim',[r(*a),n(*b)],{}))
    for d in (0,1):
        calls.append(('torch.diff',[r(*a),1,d,r(*b)],{})); calls.append(('torch.diff',[r(*a),1,d,None,r(*b)],{})); 
    calls.append(('torch.tensordot',[r(*a),r(*b),1],{})); calls.append(('torch.tensordot',[r(*a),r(*b),2],{}))
    calls.append(('torch.nn.functional.prelu',[r(*a),r(*b)],{}))
    calls.append(('torch.cross',[r(3,*a),r(3,*b)],{})); calls.append(('torch.cross',[r(*a,3),r(*b,3)],{'dim':-1})); calls.append(('torch.linalg.cross',[r(*a,3),r(*b,3)],{}))
    calls.append(('torch.cov',[r(*a)],{'fweights':n(*b)})); calls.append(('torch.cov',[r(*a)],{'aweights':r(*b).abs()+1}))
    calls.append(('torch.bucketize',[r(*a),r(*b).sort(-1).values if b else r(*b)],{}))
    calls.append(('aten.index_put.default',[r(*a),[n(*b)],r(2)],{}))
for a in sh:
    for k in (-2,-1,0,1,2):
        for x in (-3,-2,-1,0,1,2):
            calls.append(('torch.diag_embed',[r(*a),k,x],{})); 
            for y in (-3,-1,0,1): calls.append(('torch.diag_embed',[r(*a),k,x,y],{}))
    for o in ('torch.median','torch.mode','torch.kthvalue','torch.nanmedian'):
        calls.append((o,[r(*a)],{})); 
        for d in (0,1,-1): calls.append((o,[r(*a)]+([1] if o.endswith('kthvalue') else [])+[d],{}))
    for kk in (0,1,2,3): 
        calls.append(('torch.split',[r(*a),kk],{})); calls.append(('torch.tensor_split',[r(*a),kk],{})); calls.append(('torch.tensor_split',[r(*a),[kk]],{}));  calls.append(('torch.channel_shuffle',[r(*a),kk],{}))
    calls.append(('torch.corrcoef',[r(*a)],{})); calls.append(('torch.trace',[r(*a)],{}))
    calls.append(('torch.stack',[[r(*a)]],{})); calls.append(('torch.hstack',[[r(*a)]*2],{})); calls.append(('torch.vstack',[[r(*a)]*2],{})); calls.append(('torch.dstack',[[r(*a)]*2],{}))
F='torch.nn.functional.'
for k,y in ((1,r(1,2,5)),(2,r(1,2,4,3)),(3,r(1,1,3,4,2))):
    for kern,st,pad,dil,ceil,ri in itertools.product((1,2,[2]*k,[2],[1,2,1][:k]),(None,1,[2]*k,[2],[]),(0,1,[1]*k,[1],[0,1,0][:k]),(1,[1]*k,[2]),(False,True),(None,False,True)):
        if rng.random()<(0.5 if k==3 else 0.25):
            kw={} if ri is None else {'return_indices':ri}
            calls.append((F+f'max_pool{k}d',[y,kern,st,pad,dil,ceil],kw))
    for kern,st,pad in itertools.product((2,[2]*k,[2],[]),(None,1,[2]*k,[2],[]),(0,1,[1]*k,[1])):
        calls.append((F+f'avg_pool{k}d',[y,kern,st,pad],{})); calls.append((F+f'lp_pool{k}d',[y,2.0,kern,st],{}))
    for size in (1,2,[2]*k,[2],[None]*k,[],[3,None,1][:k],None):
        calls.append((F+f'adaptive_max_pool{k}d',[y,size],{})); calls.append((F+f'adaptive_max_pool{k}d',[y,size,True],{})); calls.append((F+f'adaptive_max_pool{k}d',[y,size],{'return_indices':True})); calls.append((F+f'adaptive_avg_pool{k}d',[y,size],{})); calls.append((F+f'adaptive_avg_pool{k}d',[y[:0],size],{})); calls.append((F+f'adaptive_max_pool{k}d',[y[:,:0],size],{}))
    w=r(2,y.shape[1],*[2,1,2][:k]); wt=r(y.shape[1],2,*[2,1,2][:k])
    for st,pad,dil in itertools.product((1,2,[2]*k,[2],[],0,-1),(0,1,[1]*k,[1],[],'same','valid',-1),(1,[1]*k,[1],[],[2]*k,0)):
        if rng.random()<0.35:
            calls.append((F+f'conv{k}d',[y,w,None,st,pad,dil],{})); calls.append((F+f'conv{k}d',[y,w],{'stride':st,'padding':pad,'dilation':dil}))
            if not isinstance(pad,str): calls.append((F+f'conv_transpose{k}d',[y,wt,None,st,pad,rng.choice([0,1,[1]*k,[0],[]]),1,dil],{})); calls.append(('aten.convolution.default',[y,rng.choice([w,wt]),None,st if isinstance(st,list) else [st],pad if isinstance(pad,list) else [pad],dil if isinstance(dil,list) else [dil],rng.random()<0.5,rng.choice([[0],[1],[0]*k]),1],{}))
for kern,dil,pad,st in itertools.product((1,2,[2,1],[2],0),(1,[1],[2,1],0),(0,1,[1,0],[1],-1),(1,2,[1,2],[2],0)):
    if rng.random()<0.5:
        calls.append((F+'unfold',[r(1,2,3,4),kern,dil,pad,st],{})); calls.append((F+'fold',[r(1,4,rng.choice([2,4,6,9])),rng.choice([[3,4],4,[4],[2,3]]),kern,dil,pad,st],{}))
for mode in ('nearest','area','linear','bilinear','bicubic','nearest-exact'):
    for y in (r(1,1,4),r(1,1,3,4),r(1,0,3,4),r(0,1,3,4),r(1,1,0,4),r(1,1,2,2,3),r(3,4)):
        for kw in ({'size':2},{'size':[2,3]},{'scale_factor':2.0},{'scale_factor':0.0},{'scale_factor':-1.0},{'scale_factor':[1.5,2.0]},{'size':2,'scale_factor':2.0},{},{'size':0},{'scale_factor':1.3,'recompute_scale_factor':True},{'scale_factor':1.3,'recompute_scale_factor':False},{'size':3,'align_corners':True},{'size':3,'align_corners':False},{'scale_factor':0.7,'align_corners':True}):
            calls.append((F+'interpolate',[y],{'mode':mode,**kw}))
for lo in (None,-1.0,0.0,1.0,r(3),r(1),r(2,1)):
    for hi in (None,-1.0,0.0,1.0,r(3),r(1),torch.tensor([0.,1.,float('nan')],dtype=f64)):
        for x in (torch.tensor([0.,1.,float('nan')],dtype=f64),r(2,3),torch.tensor([-1.,0.,1.],dtype=f64)):
            calls.append(('torch.clamp',[x,lo,hi],{}))
for a in ('torch.logaddexp2','torch.logaddexp','torch.hypot'):
    v=torch.tensor([0.,1.,-1.,3.,float('inf'),-float('inf'),float('nan'),50.],dtype=f64)
    for i in range(8):
        calls.append((a,[v,v.roll(i)],{})); calls.append((a,[v.round().nan_to_num(0,2,-2).long(),v.roll(i)],{})); calls.append((a,[v.nan_to_num(0,2,-2).long(),v.roll(i).nan_to_num(0,2,-2).long()],{})); calls.append((a,[v>0,v.roll(i)>0],{})); calls.append((a,[v>0,v.roll(i)],{})) 
for q in (0.06,0.0599,0.0601,0.05,0.08,0.03):
    x=(q**0.5)/3.141592653589793
    calls.append(('torch.sinc',[torch.tensor([x,-x,x*1.05,x*0.95],dtype=f64)],{}))
for o in ('torch.special.entr','torch.special.log_ndtr','torch.special.ndtri','torch.signbit','torch.special.i1','torch.special.i1e','torch.deg2rad','torch.rad2deg','torch.isposinf','torch.isneginf','torch.t','torch.nn.functional.tanhshrink','torch.nn.functional.softsign','torch.nn.functional.logsigmoid'):
    for d in (torch.bool,torch.uint8,torch.int8,torch.int32,torch.int64,torch.float16,torch.bfloat16,torch.float32,f64):
        calls.append((o,[torch.tensor([0.,1.,-1.,3.,0.5,-2.]).to(d)],{}))
        calls.append((o,[torch.tensor([-1.,-1.0001,-0.9999,-5.,-30.,1e-3,float('inf'),-float('inf'),float('nan')]).to(d) if d.is_floating_point else torch.tensor([2]).to(d)],{}))
for o in ('torch.norm','torch.linalg.vector_norm','torch.linalg.norm'):
    for d in (torch.bool,torch.int32,torch.float16,torch.float32,f64):
        for dt in (None,torch.float32,f64,torch.int64,torch.bfloat16):
            calls.append((o,[torch.tensor([[1.,2.,-3.],[0.,4.,1.]]).to(d)],{'dtype':dt} if dt else {})); calls.append((o,[torch.tensor([[1.,2.,-3.],[0.,4.,1.]]).to(d),3,1],{'dtype':dt} if dt else {}))
for o in ('torch.searchsorted',):
    for d in (torch.uint8,torch.int32,torch.int64,torch.float16,torch.bfloat16,torch.float32,f64):
        calls.append((o,[torch.tensor([1.,2.,4.]).to(d),torch.tensor([2.,3.]).to(d)],{})); calls.append((o,[torch.tensor([[1.,2.,4.]]).to(d),torch.tensor([[2.,3.]]).to(d)],{'side':'right'}))
for red in ('none','mean','sum','batchmean'):
    for d in (torch.bool,torch.int64,torch.float16,torch.bfloat16,torch.float32,f64):
        for lt in (False,True):
            calls.append((F+'kl_div',[torch.tensor([0.5,-1.,2.]).to(d),torch.tensor([1.,0.,0.25]).to(d)],{'reduction':red,'log_target':lt})); calls.append((F+'kl_div',[torch.tensor(0.5).to(d),torch.tensor(1.).to(d)],{'reduction':red,'log_target':lt}))
    if red!='batchmean':
        for d in (torch.bool,torch.int64,torch.float16,torch.bfloat16,torch.float32,f64):
            for o in ('soft_margin_loss','huber_loss','l1_loss','mse_loss','smooth_l1_loss','poisson_nll_loss','hinge_embedding_loss','binary_cross_entropy_with_logits'):
                calls.append((F+o,[torch.tensor([0.5,-1.,2.]).to(d),torch.tensor([1.,-1.,1.]).to(d)],{'reduction':red}))
            for ls in (-0.1,0.0,0.3,1.0,1.1):
                calls.append((F+'cross_entropy',[r(2,3).to(d),n(2)],{'label_smoothing':ls,'reduction':red})); calls.append((F+'cross_entropy',[r(2,3).to(d),r(2,3).abs().to(d)],{'label_smoothing':ls,'reduction':red})); calls.append((F+'cross_entropy',[r(3).to(d),torch.tensor(1)],{'label_smoothing':ls,'reduction':red})); calls.append((F+'cross_entropy',[r(3).to(d),r(3).abs().to(d)],{'label_smoothing':ls,'reduction':red}))
for o,args in (('aten._softmax_backward_data.default',1),('aten._log_softmax_backward_data.default',1)):
    for d in (torch.int64,torch.bool,torch.float16,torch.bfloat16,torch.float32,f64):
        for u in (torch.int64,torch.float16,torch.bfloat16,torch.float32,f64):
            calls.append((o,[r(2,3).to(d),r(2,3).to(d),1,u],{})); calls.append((o,[r(2,3).to(d),r(3).to(d),0,u],{})); calls.append((o,[r(3).to(d),r(2,3).to(d),0,u],{}))
for op in ('aten.add.Scalar','aten.sub.Scalar','aten.rsub.Scalar'):
    for d in (torch.bool,torch.int32,torch.float32):
        for y in (2,2.5,True):
            for al in (1,2,0.5,True): calls.append((op,[torch.tensor([1,0,3]).to(d),y,al],{}))
out=open(sys.argv[1] + '/part-grids.jsonl', 'w'); seen=set(); k=0
for op,args,kw in calls:
    try: resolve(op); c=written(op,args,kw,'')
    except Exception: continue
    t=json.dumps(c,separators=(',',':'))
    if t in seen or len(t)>1500: continue
    seen.add(t); k+=1; c['id']=f'{op}/p/{k}'
    try: res=ask(c,rng)
    except Exception: continue
    if res is not None: out.write(json.dumps([c,res],separators=(',',':'),allow_nan=False)+'\n'); out.flush()
print(k)
