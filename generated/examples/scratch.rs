//! scratch
use fulgurite::prelude::*;
fn main() -> Result<()> {
    let x = Tensor::from_vec(vec![-1.0f32, 0.0, 1.0, 2.0], &[2, 2]);
    println!("{:?}", x.gelu());
    println!("{:?}", (&x * 2.0 + 1).matmul(&x));
    println!("{:?}", grad(&x, |x| x.gelu().sum()));
    println!("{:?}", grad(&x, |x| (x * x).softmax(-1).square().sum()));
    let f = jit(|(x,): (Tensor,)| x.softmax(-1).ln().sum_with(Sum { dims: [1].into(), ..d() }));
    println!("{:?}", f.call((x.clone(),))?);
    println!("{:?}", x.matmul(&Tensor::from_vec(vec![1f32; 3], &[3, 1])));
    Ok(())
}
